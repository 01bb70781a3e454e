package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"toolrounds/shared/access"
	"toolrounds/shared/fault"
	"toolrounds/shared/table"
)

const (
	textBadValves     = "[ERROR: Error updating tool valves]"
	textBadUserValves = "[ERROR: Error updating tool user valves]"
)

var noValves = json.RawMessage("{}")

// about binds sealed valves to the one toolkit, and the one user, that they were given for. No user: the administrator's.
func about(k Toolkit, user string) string {
	if user == "" {
		return "valves/" + k.ID + "/" + k.born
	}
	return "valves/" + k.ID + "/" + k.born + "/" + user
}

func valvesKey(k Toolkit, user string) table.Key {
	if user == "" {
		return table.ToolValves(k.ID)
	}
	return table.ToolUserValves(k.ID, user)
}

// open decrypts stored valves. Those of an earlier toolkit of the same id count as none.
func (t *Tools) open(ctx context.Context, k Toolkit, user string, item table.Item) (json.RawMessage, error) {
	sealed, ok := item.Attr["sealed"].(table.Blob)
	if !ok || item.String("born") != k.born {
		return noValves, nil
	}
	plain, err := t.seal.Open(ctx, sealed, about(k, user))
	if err != nil {
		return nil, fmt.Errorf("open valves of %s: %w", k.ID, err)
	}
	return plain, nil
}

func (t *Tools) stored(ctx context.Context, k Toolkit, user string) (json.RawMessage, error) {
	item, _, err := table.One(ctx, t.table, valvesKey(k, user))
	if err != nil {
		return nil, fmt.Errorf("read valves: %w", err)
	}
	return t.open(ctx, k, user, item)
}

// valved reads a toolkit whose valves of the kind the user may see: the administrator's need write access, one's own read access.
// Unknown: fault.NotFound; no access: fault.Forbidden.
func (t *Tools) valved(ctx context.Context, u access.User, id string, kind ValvesKind) (k Toolkit, user string, err error) {
	permission := access.Write
	if kind == UserValves {
		permission, user = access.Read, u.ID
	}
	if k, err = t.Toolkit(ctx, id); err != nil {
		return Toolkit{}, "", err
	}
	allowed, err := t.Allows(ctx, u, k, permission)
	if err == nil && !allowed {
		err = fault.New(fault.Forbidden, fault.TextProhibited)
	}
	return k, user, err
}

// Values reads the stored valves of a kind, an object; {} when there are none. Unknown toolkit: fault.NotFound; no access:
// fault.Forbidden.
func (t *Tools) Values(ctx context.Context, u access.User, id string, kind ValvesKind) (json.RawMessage, error) {
	k, user, err := t.valved(ctx, u, id, kind)
	if err != nil {
		return nil, err
	}
	return t.stored(ctx, k, user)
}

// Schema is the JSON schema of a toolkit's valves of a kind, null when it has none. Faults as Values, and what the container refuses.
func (t *Tools) Schema(ctx context.Context, u access.User, id string, kind ValvesKind) (json.RawMessage, error) {
	k, _, err := t.valved(ctx, u, id, kind)
	if err != nil {
		return nil, err
	}
	if has := k.HasValves; kind == Valves && !has || kind == UserValves && !k.HasUserValves {
		return json.RawMessage("null"), nil
	}
	source, err := t.Source(ctx, id)
	if err != nil {
		return nil, err
	}
	schema, err := t.container.ValvesSpec(ctx, id, source, kind)
	return schema, refusal(err, "")
}

// SetValues replaces the valves of a kind by what the container makes of the values, an object, and returns it. Faults as Values; a
// toolkit without such valves is fault.Unauthorized, as clients know it; values it does not take are fault.Invalid and change nothing.
func (t *Tools) SetValues(ctx context.Context, u access.User, id string, kind ValvesKind, values json.RawMessage) (json.RawMessage, error) {
	k, user, err := t.valved(ctx, u, id, kind)
	if err != nil {
		return nil, err
	}
	none := fault.New(fault.Unauthorized, fault.TextNotFound)
	if kind == Valves && !k.HasValves || kind == UserValves && !k.HasUserValves {
		return nil, none
	}
	source, err := t.Source(ctx, id)
	if err != nil {
		return nil, err
	}
	made, err := t.container.CheckValves(ctx, id, source, kind, values)
	var refused *ContainerError
	if errors.As(err, &refused) && refused.Kind == "no_valves" {
		return nil, none
	}
	text := textBadValves
	if kind == UserValves {
		text = textBadUserValves
	}
	if err := refusal(err, text); err != nil {
		return nil, err
	}
	sealed, err := t.seal.Seal(ctx, made, about(k, user))
	if err != nil {
		return nil, fmt.Errorf("seal valves: %w", err)
	}
	err = t.table.Transact(ctx, table.Check(table.Tool(id), table.Is("born", k.born)),
		table.Put(table.Item{Key: valvesKey(k, user), Attr: map[string]any{"sealed": table.Blob(sealed), "born": k.born, "at": t.now()}}))
	if errors.Is(err, table.ErrCondition) {
		return nil, notFound() // deleted meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("store valves: %w", err)
	}
	return made, nil
}
