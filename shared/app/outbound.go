package app

import (
	"fmt"
	"net/http"
	"time"

	"toolrounds/shared/guard"
	"toolrounds/shared/server"
)

// outboundClients are what reaches addresses that users and administrators give: all behind one guard, each with bounds of its own.
type outboundClients struct {
	sources   *http.Client // of toolkits
	openapi   *http.Client
	mcp       *http.Client // whose time and sizes package mcp bounds itself
	terminals *http.Client
}

// Documents of large APIs have a dozen megabytes.
const (
	maxDocument = 32 << 20
	maxSource   = 5 << 20
)

// outbound makes the clients, with the networks that are allowed besides the public internet.
func outbound(allow string) (outboundClients, error) {
	networks, err := guard.Networks(allow)
	if err != nil {
		return outboundClients{}, fmt.Errorf("configuration: %w", err)
	}
	g := guard.New(networks...)
	return outboundClients{
		sources:   g.Client(guard.Limits{Time: 25 * time.Second, Size: maxSource}),
		openapi:   g.Client(guard.Limits{Time: -1, Size: maxDocument}),
		mcp:       g.Client(guard.Limits{Time: -1, Size: maxDocument, Redirects: -1}),
		terminals: g.Client(guard.Limits{Time: server.ProxyTime, Size: maxSource, Redirects: -1}),
	}, nil
}
