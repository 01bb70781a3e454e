package main

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// hopByHop headers concern one connection and reach no function.
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// proxyEvent is the event that a REST API with the binary media type */* hands to a function: the path as it was sent, a body as
// base64, each header and parameter both as its last value and as all of them.
func proxyEvent(r *http.Request, body []byte, g *gateway, resource, rest, id string) events.APIGatewayProxyRequest {
	now := time.Now().UTC()
	path := r.URL.EscapedPath()
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	headers := http.Header{}
	for name, values := range r.Header {
		if !hopByHop[name] {
			headers[name] = values
		}
	}
	headers.Set("Host", r.Host)
	forwarded := client
	if before := r.Header.Get("X-Forwarded-For"); before != "" {
		forwarded = before + ", " + client
	}
	headers.Set("X-Forwarded-For", forwarded)
	headers.Set("X-Forwarded-Proto", "http")

	event := events.APIGatewayProxyRequest{
		Resource:          resource,
		Path:              path,
		HTTPMethod:        r.Method,
		Headers:           lastValues(headers),
		MultiValueHeaders: headers,
		RequestContext: events.APIGatewayProxyRequestContext{
			AccountID:        "000000000000",
			APIID:            g.apiID,
			Stage:            g.stage,
			DomainName:       r.Host,
			RequestID:        id,
			Protocol:         r.Proto,
			Identity:         events.APIGatewayRequestIdentity{SourceIP: client, UserAgent: r.UserAgent()},
			ResourcePath:     resource,
			Path:             "/" + g.stage + path,
			HTTPMethod:       r.Method,
			RequestTime:      now.Format("02/Jan/2006:15:04:05 -0700"),
			RequestTimeEpoch: now.UnixMilli(),
		},
	}
	// What does not parse is left out, as the gateway does.
	if query, _ := url.ParseQuery(r.URL.RawQuery); len(query) > 0 {
		event.QueryStringParameters = lastValues(query)
		event.MultiValueQueryStringParameters = query
	}
	if rest != "" {
		if decoded, err := url.PathUnescape(rest); err == nil {
			rest = decoded
		}
		event.PathParameters = map[string]string{strings.Trim(greedy, "{}+"): rest}
	}
	if len(body) > 0 {
		event.Body, event.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return event
}

func lastValues(all map[string][]string) map[string]string {
	last := make(map[string]string, len(all))
	for name, values := range all {
		if len(values) > 0 {
			last[name] = values[len(values)-1]
		}
	}
	return last
}

// readBody reads a request's body up to the gateway's limit; ok is false beyond it.
func readBody(r *http.Request) (body []byte, ok bool, err error) {
	body, err = io.ReadAll(io.LimitReader(r.Body, requestLimit+1))
	return body, len(body) <= requestLimit, err
}
