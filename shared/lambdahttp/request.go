// Package lambdahttp serves an ordinary http.Handler behind an API Gateway REST API, so that nothing above it knows of Lambda.
// Stream answers while the handler writes (response transfer mode STREAM: up to 15 minutes, 200 MB); Buffered answers at the end
// (29 seconds, 6 MB). Both hand the handler the same request; what only the gateway knows is in its context, see From.
package lambdahttp

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// Gateway is what API Gateway says about a request beside the request itself. Clients cannot forge any of it.
type Gateway struct {
	RequestID string
	Stage     string
	Domain    string // the name the request came to: the API's own or a custom domain
	SourceIP  string
	// BaseURL is the address of the API without a slash at the end: with the stage on the API's own domain, without it on a custom
	// one, where the stage is not part of the path. Empty when the event names no domain.
	BaseURL string
}

type gatewayKey struct{}

// From returns what the gateway said; ok is false when the request did not come through one.
func From(ctx context.Context) (g Gateway, ok bool) {
	g, ok = ctx.Value(gatewayKey{}).(Gateway)
	return g, ok
}

// With returns a context that From reads: for tests, and for servers that stand in for the gateway.
func With(ctx context.Context, g Gateway) context.Context {
	return context.WithValue(ctx, gatewayKey{}, g)
}

func gatewayOf(e events.APIGatewayProxyRequest) Gateway {
	c := e.RequestContext
	g := Gateway{RequestID: c.RequestID, Stage: c.Stage, Domain: c.DomainName, SourceIP: c.Identity.SourceIP}
	if c.DomainName == "" {
		return g
	}
	g.BaseURL = "https://" + c.DomainName
	if strings.Contains(c.DomainName, ".execute-api.") && c.Stage != "" {
		g.BaseURL += "/" + c.Stage
	}
	return g
}

// request makes the handler's request of the event.
func request(ctx context.Context, e events.APIGatewayProxyRequest) (*http.Request, error) {
	body := []byte(e.Body)
	if e.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			return nil, fmt.Errorf("body of the event: %w", err)
		}
	}
	target := escaped(e.Path)
	if q := query(e).Encode(); q != "" {
		target += "?" + q
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, fmt.Errorf("path of the event: %w", err)
	}
	header := headers(e)
	r := &http.Request{
		Method: strings.ToUpper(e.HTTPMethod), URL: u, RequestURI: target,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Host: header.Get("Host"), Body: http.NoBody, ContentLength: int64(len(body)),
		RemoteAddr: remote(e),
	}
	header.Del("Host") // as net/http does
	if r.Host == "" {
		r.Host = e.RequestContext.DomainName
	}
	if len(body) > 0 {
		r.Body = newBody(body)
	}
	return r.WithContext(With(ctx, gatewayOf(e))), nil
}

func remote(e events.APIGatewayProxyRequest) string {
	// net/http always has a port here, and handlers split it off.
	return net.JoinHostPort(e.RequestContext.Identity.SourceIP, "0")
}

// query is the query of the event, which API Gateway has decoded.
func query(e events.APIGatewayProxyRequest) url.Values {
	if len(e.MultiValueQueryStringParameters) > 0 {
		return e.MultiValueQueryStringParameters
	}
	q := make(url.Values, len(e.QueryStringParameters))
	for k, v := range e.QueryStringParameters {
		q.Set(k, v)
	}
	return q
}

func headers(e events.APIGatewayProxyRequest) http.Header {
	h := make(http.Header, len(e.MultiValueHeaders)+len(e.Headers))
	for k, values := range e.MultiValueHeaders {
		for _, v := range values {
			h.Add(k, v)
		}
	}
	if len(e.MultiValueHeaders) == 0 {
		for k, v := range e.Headers {
			h.Set(k, v)
		}
	}
	return h
}

// escaped makes the event's path one that can stand in a URL. A REST API passes the path on as the client escaped it, so what is
// escaped stays, an id's %2F above all. Other gateways, and the emulator, pass it decoded; so what never stands bare in an escaped
// path is escaped here. A decoded "%41" cannot be told from an escaped "A"; it is taken for the latter.
func escaped(path string) string {
	const hex = "0123456789ABCDEF"
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) ||
			c != '%' && c > ' ' && c < 0x7f && !strings.ContainsRune(`"#<>?[\]^`+"`{|}", rune(c)) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
