// Package guard makes the HTTP clients for addresses that users influence: tool servers, documents, sources by URL, redirects of any
// of them. Such a client reaches the public internet and nothing else, unless an operator allows a network.
//
// # What it promises
//
// The address that is judged is the one that is connected to: the judgement is made by the dialer, after the name was resolved and for
// every address that it tries, so a name that resolves differently a moment later (DNS rebinding), an address in an odd notation, and a
// redirect all meet the same check. No proxy of the environment is used, since it would resolve names by itself.
//
// An answer ends: redirects are counted, headers and body have a largest size, also after decompression, and the whole exchange has
// its time. What goes too far is an error that errors.Is finds: ErrRefused, ErrRedirects, ErrTooLarge.
//
// A redirect to another origin loses every header that the caller set: keys travel to the server they were meant for.
package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// The errors of guarded clients.
var (
	ErrRefused   = errors.New("the address is not allowed")
	ErrRedirects = errors.New("too many redirects")
	ErrTooLarge  = errors.New("the answer is too large")
)

// Limits bound one exchange. Zero values stand for the defaults.
type Limits struct {
	Time      time.Duration // of the whole exchange with all redirects, the body included; default 60 s, negative: the context's alone
	Size      int64         // largest body in bytes, decompressed; default 16 MiB
	Redirects int           // default 5, negative: none is followed
}

const (
	defaultTime      = 60 * time.Second
	defaultSize      = 16 << 20
	defaultRedirects = 5
	dialTime         = 10 * time.Second
	headerTime       = 10 * time.Minute // until an answer begins; callers bound it further
	maxHeader        = 256 << 10
)

// Guard makes clients that share their connections. It is safe for concurrent use.
type Guard struct {
	allow     []netip.Prefix
	transport *http.Transport
}

// New makes a guard that lets into the allowed networks besides the public internet.
func New(allow ...netip.Prefix) *Guard {
	g := &Guard{allow: allow}
	dialer := &net.Dialer{Timeout: dialTime, KeepAlive: 30 * time.Second, ControlContext: g.control}
	g.transport = &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialTime, MaxIdleConns: 100, MaxIdleConnsPerHost: 8,
		IdleConnTimeout: 60 * time.Second, ResponseHeaderTimeout: headerTime, MaxResponseHeaderBytes: maxHeader,
		ExpectContinueTimeout: time.Second,
	}
	return g
}

// Networks reads a list of networks and addresses, parted by commas or white space: "10.1.0.0/16, 192.168.7.5".
func Networks(text string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
		if address, err := netip.ParseAddr(word); err == nil {
			networks = append(networks, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("%q is no network or address", word)
		}
		networks = append(networks, network.Masked())
	}
	return networks, nil
}

// control judges the address that a connection is about to be made to.
func (g *Guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("%w: network %s", ErrRefused, network)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrRefused, address)
	}
	if !g.Allows(to.Addr()) {
		return fmt.Errorf("%w: %s", ErrRefused, to.Addr().Unmap())
	}
	return nil
}

// Allows tells whether the guard lets connections to the address: it is public, or in an allowed network.
func (g *Guard) Allows(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, network := range g.allow {
		if network.Contains(address) {
			return true
		}
	}
	return public(address)
}

// Client makes a client with those limits.
func (g *Guard) Client(l Limits) *http.Client {
	if l.Time == 0 {
		l.Time = defaultTime
	}
	if l.Size <= 0 {
		l.Size = defaultSize
	}
	if l.Redirects == 0 {
		l.Redirects = defaultRedirects
	}
	c := &http.Client{Transport: bounded{next: g.transport, size: l.Size}, CheckRedirect: redirects(l.Redirects)}
	if l.Time > 0 {
		c.Timeout = l.Time
	}
	return c
}

// redirects follows at most that many, never from https to http, and leaves what the caller sent behind when the origin changes.
func redirects(most int) func(*http.Request, []*http.Request) error {
	return func(r *http.Request, via []*http.Request) error {
		if most < 0 {
			return http.ErrUseLastResponse
		}
		if len(via) > most {
			return ErrRedirects
		}
		first := via[0]
		if via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return fmt.Errorf("%w: a redirect from https to %s", ErrRefused, r.URL.Scheme)
		}
		if r.URL.Scheme != first.URL.Scheme || !strings.EqualFold(r.URL.Host, first.URL.Host) {
			kept := http.Header{}
			for _, name := range []string{"Accept", "User-Agent", "Content-Type"} {
				if v := r.Header.Values(name); v != nil {
					kept[name] = v
				}
			}
			r.Header = kept
		}
		return nil
	}
}

// bounded is a transport whose answers have a largest size.
type bounded struct {
	next http.RoundTripper
	size int64
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%w: scheme %q", ErrRefused, r.URL.Scheme)
	}
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > b.size {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, resp.ContentLength)
	}
	resp.Body = &limited{ReadCloser: resp.Body, left: b.size}
	return resp, nil
}

// limited is a body that ends with ErrTooLarge where it goes on beyond its size.
type limited struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.ReadCloser.Read(p)
	if int64(n) > l.left {
		n, err = int(l.left), ErrTooLarge
	}
	l.left -= int64(n)
	return n, err
}
