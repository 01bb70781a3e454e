package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Discover finds out where the users of a server sign in (RFC 9728, RFC 8414, OpenID Connect Discovery). challenge is the
// WWW-Authenticate header of the server's refusal, "" when it gave none. Servers from before there was such metadata are taken to be
// their own providers.
func (c *Client) Discover(ctx context.Context, server, challenge string) (Provider, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" {
		return Provider{}, fmt.Errorf("the server's URL is no web address: %q", server)
	}
	base.RawQuery, base.Fragment, base.User = "", "", nil
	said := params(challenge)
	meta, err := c.resource(ctx, base, said["resource_metadata"])
	if err != nil {
		return Provider{}, err
	}
	issuer, resource, scope := origin(base), base.String(), said["scope"]
	if meta != nil {
		resource = meta.Resource
		issuer = meta.Servers[0]
		if scope == "" {
			scope = strings.Join(meta.Scopes, " ")
		}
	}
	p, err := c.provider(ctx, issuer)
	if errors.Is(err, errNone) && meta == nil {
		// The version of 2025-03-26 has these for servers without metadata.
		p, err = Provider{Issuer: issuer, Authorize: issuer + "/authorize", Token: issuer + "/token", Registration: issuer + "/register"}, nil
	}
	if err != nil {
		return Provider{}, err
	}
	p.Resource, p.Scope = resource, scope
	return p, nil
}

// params are the parameters of a Bearer challenge.
func params(challenge string) map[string]string {
	if challenge == "" {
		return nil
	}
	list, err := oauthex.ParseWWWAuthenticate([]string{challenge})
	if err != nil {
		return nil // then the well-known addresses have to do
	}
	for _, one := range list {
		if one.Scheme == "bearer" {
			return one.Params
		}
	}
	return nil
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// errNone is that there is no metadata at an address.
var errNone = errors.New("no metadata")

type resourceMeta struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// resource reads what a server says of itself, nil when it says nothing.
func (c *Client) resource(ctx context.Context, server *url.URL, named string) (*resourceMeta, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	path := strings.TrimSuffix(server.EscapedPath(), "/")
	places := []string{named, origin(server) + wellKnown + path, origin(server) + wellKnown}
	if named != "" {
		places = places[:1]
	}
	for _, place := range slices.Compact(slices.DeleteFunc(places, func(s string) bool { return s == "" })) {
		var meta resourceMeta
		err := c.read(ctx, place, &meta)
		if errors.Is(err, errNone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the server's metadata: %w", err)
		}
		if !covers(meta.Resource, server) {
			return nil, fmt.Errorf("the server's metadata is that of another one: %q", clip(meta.Resource))
		}
		if len(meta.Servers) == 0 {
			return nil, errors.New("the server's metadata names no provider")
		}
		return &meta, nil
	}
	return nil, nil
}

// covers tells whether tokens for a resource are for a server: it is the server's address or one above it. Anything else would let a
// server ask for tokens that are good elsewhere.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || !strings.EqualFold(r.Scheme, server.Scheme) || !strings.EqualFold(r.Host, server.Host) {
		return false
	}
	above := strings.TrimSuffix(r.EscapedPath(), "/")
	return strings.HasPrefix(strings.TrimSuffix(server.EscapedPath(), "/")+"/", above+"/")
}

// provider reads a provider's metadata.
func (c *Client) provider(ctx context.Context, issuer string) (Provider, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		return Provider{}, fmt.Errorf("the provider is no web address: %q", clip(issuer))
	}
	const oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, place := range slices.Compact([]string{origin(u) + oauth + path, origin(u) + openid + path, origin(u) + path + openid}) {
		var p Provider
		err := c.read(ctx, place, &p)
		if errors.Is(err, errNone) {
			continue
		}
		if err != nil {
			return Provider{}, fmt.Errorf("read the provider's metadata: %w", err)
		}
		if strings.TrimSuffix(p.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
			return Provider{}, fmt.Errorf("the provider's metadata is that of another one: %q", clip(p.Issuer))
		}
		if !slices.Contains(p.PKCE, "S256") {
			return Provider{}, errors.New("the provider does not support PKCE")
		}
		if p.Authorize == "" || p.Token == "" {
			return Provider{}, errors.New("the provider's metadata names no endpoints")
		}
		return p, nil
	}
	return Provider{}, fmt.Errorf("read the provider's metadata: %w", errNone)
}

func (c *Client) read(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	err = answer(c.http, req, into)
	var status *statusError
	if errors.As(err, &status) && status.status >= 400 && status.status < 500 {
		return errNone
	}
	return err
}
