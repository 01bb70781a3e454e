package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

// The texts of refusals about toolkits, word for word as clients know them.
const (
	textTaken     = "Uh-oh! This id is already registered. Please choose another id string."
	textBadID     = "Only alphanumeric characters and underscores are allowed in the id"
	textNotMade   = "[ERROR: Error creating tool]"
	textBusy      = "Too many changes at once. Please try again."
	textContainer = "The tool container does not answer. Please try again."
)

// Create stores a new toolkit under the lower-cased id, after the container has loaded its source. Fault.Invalid: the id is taken or
// no Python identifier, or the source does not load; nothing is stored then.
func (t *Tools) Create(ctx context.Context, u access.User, f Form) (Toolkit, error) {
	if !identifier(f.ID) || len(strings.ToLower(f.ID)) > table.MaxID {
		return Toolkit{}, fault.New(fault.Invalid, textBadID)
	}
	id := strings.ToLower(f.ID)
	_, err := t.Toolkit(ctx, id)
	if err == nil {
		return Toolkit{}, fault.New(fault.Invalid, textTaken)
	}
	if fault.CodeOf(err) != fault.NotFound {
		return Toolkit{}, err
	}
	d, err := t.container.Describe(ctx, id, f.Source)
	if err := refusal(err, textNotMade+" "+reason(err)); err != nil {
		return Toolkit{}, err
	}
	now := t.now()
	k := Toolkit{ID: id, UserID: u.ID, born: access.NewID(), revision: 1, CreatedAt: now, UpdatedAt: now,
		Grants: access.Grants("tool", id, f.Grants, nil, now)}
	k.describe(f, d)
	err = t.table.Transact(ctx, table.Put(k.item(), table.New()), table.Put(k.source(f.Source)))
	if errors.Is(err, table.ErrCondition) {
		return Toolkit{}, fault.New(fault.Invalid, textTaken)
	}
	if err != nil {
		return Toolkit{}, fmt.Errorf("store toolkit: %w", err)
	}
	return k, nil
}

// describe fills in what the form and the container say.
func (k *Toolkit) describe(f Form, d Description) {
	k.Name, k.Version, k.VersionID = f.Name, version(f.Source), access.NewID()
	k.Specs, k.Offered, k.HasValves, k.HasUserValves = d.Specs, d.Offered, d.HasValves, d.HasUserValves
	if k.Specs == nil {
		k.Specs = []Spec{}
	}
	if k.Offered == nil {
		k.Offered = []Spec{}
	}
	k.Meta = maps.Clone(f.Meta)
	if k.Meta == nil {
		k.Meta = map[string]any{}
	}
	for _, field := range []string{"i18n", "description"} {
		if _, ok := k.Meta[field]; !ok {
			k.Meta[field] = nil
		}
	}
	manifest := map[string]any{}
	for name, value := range d.Manifest {
		manifest[name] = value
	}
	k.Meta["manifest"], k.Meta["has_user_valves"] = manifest, d.HasUserValves
}

// identifier tells whether Python takes the text for a name.
func identifier(s string) bool {
	for i, r := range s {
		start := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Other_ID_Start, r)
		if !start && (i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)) {
			return false
		}
	}
	return s != ""
}

// attempts is how often a change is tried against others of the same toolkit.
const attempts = 8

// Update replaces name, meta and source of a toolkit; its id, grants and valves stay. Unknown: fault.NotFound; no write access:
// fault.Forbidden; a source that does not load, or that does not take the stored valves: fault.Invalid with the reason.
func (t *Tools) Update(ctx context.Context, u access.User, id string, f Form) (Toolkit, error) {
	if _, err := t.writable(ctx, u, id); err != nil {
		return Toolkit{}, err
	}
	d, err := t.container.Describe(ctx, id, f.Source)
	if err := refusal(err, ""); err != nil {
		return Toolkit{}, err
	}
	for range attempts {
		k, err := t.writable(ctx, u, id)
		if err != nil {
			return Toolkit{}, err
		}
		if err := t.fits(ctx, k, d, f.Source); err != nil {
			return Toolkit{}, err
		}
		old := k.revision
		k.describe(f, d)
		k.revision, k.UpdatedAt = old+1, t.now()
		err = t.table.Transact(ctx, table.Put(k.item(), table.Is("revision", old), table.Is("born", k.born)), table.Put(k.source(f.Source)))
		if err == nil {
			return k, nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return Toolkit{}, fmt.Errorf("store toolkit: %w", err)
		}
	}
	return Toolkit{}, fault.New(fault.Unavailable, textBusy)
}

// refusal turns an error of the container into a fault. What it refuses is the caller's to mend: fault.Invalid, with the text, or
// its own message when that is "". Anything else is fault.Unavailable.
func refusal(err error, text string) error {
	if err == nil {
		return nil
	}
	var refused *ContainerError
	if !errors.As(err, &refused) || refused.Kind == "unavailable" {
		return fault.Wrap(fault.Unavailable, textContainer, err)
	}
	if text == "" {
		text = refused.Message
	}
	return fault.Wrap(fault.Invalid, text, err)
}

// reason is what the container said, "" when it refused nothing.
func reason(err error) string {
	var refused *ContainerError
	if errors.As(err, &refused) {
		return refused.Message
	}
	return ""
}

// fits checks the administrator's stored valves against a new source.
func (t *Tools) fits(ctx context.Context, k Toolkit, d Description, source string) error {
	if !d.HasValves {
		return nil
	}
	stored, err := t.stored(ctx, k, "")
	if err != nil || string(stored) == "{}" {
		return err
	}
	_, err = t.container.CheckValves(ctx, k.ID, source, Valves, stored)
	return refusal(err, "")
}

func (t *Tools) writable(ctx context.Context, u access.User, id string) (Toolkit, error) {
	k, err := t.Toolkit(ctx, id)
	if err != nil {
		return Toolkit{}, err
	}
	allowed, err := t.Allows(ctx, u, k, access.Write)
	if err == nil && !allowed {
		err = fault.New(fault.Forbidden, fault.TextProhibited)
	}
	return k, err
}

// Grant replaces a toolkit's grants. Unknown: fault.NotFound; no write access: fault.Forbidden.
func (t *Tools) Grant(ctx context.Context, u access.User, id string, asked []access.Grant) (Toolkit, error) {
	for range attempts {
		k, err := t.writable(ctx, u, id)
		if err != nil {
			return Toolkit{}, err
		}
		old := k.revision
		k.Grants, k.revision = access.Grants("tool", id, asked, k.Grants, t.now()), old+1
		_, err = t.table.Apply(ctx, table.Update(table.Tool(id), table.Change{Set: map[string]any{"grants": table.MustJSON(k.Grants),
			"revision": k.revision}}, table.Is("revision", old), table.Is("born", k.born)))
		if err == nil {
			return k, nil
		}
		if !errors.Is(err, table.ErrCondition) {
			return Toolkit{}, fmt.Errorf("store grants: %w", err)
		}
	}
	return Toolkit{}, fault.New(fault.Unavailable, textBusy)
}

// Delete removes a toolkit with its source and valves. Unknown: fault.NotFound; no write access: fault.Forbidden. Users' valves that
// a cut-off leaves behind belong to this toolkit only: one made later under the same id does not see them.
func (t *Tools) Delete(ctx context.Context, u access.User, id string) error {
	if _, err := t.writable(ctx, u, id); err != nil {
		return err
	}
	if err := t.table.Transact(ctx, table.Delete(table.Tool(id)), table.Delete(table.ToolSource(id)), table.Delete(table.ToolValves(id))); err != nil {
		return fmt.Errorf("delete toolkit: %w", err)
	}
	rest, err := table.All(ctx, t.table, table.Query{PK: table.Tool(id).PK, Prefix: table.ToolUserValves(id, "").SK, Lazy: true})
	if err != nil {
		return fmt.Errorf("delete valves: %w", err)
	}
	ops := make([]table.Op, len(rest))
	for i, item := range rest {
		ops[i] = table.Delete(item.Key)
	}
	if len(ops) == 0 {
		return nil
	}
	if err := t.table.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("delete valves: %w", err)
	}
	return nil
}
