package guard

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAllows(t *testing.T) {
	refused := []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.5.4", "172.31.255.255", "192.168.1.1", "169.254.169.254", "169.254.170.2",
		"100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1",
		"255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1", "fc00::1", "fd00:ec2::254",
		"fec0::1", "ff02::1", "2001:db8::1", "2001::1", "100::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::",
		"2002:a00:1::1",
	}
	open := []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"}
	g := New()
	for _, a := range refused {
		if g.Allows(netip.MustParseAddr(a)) {
			t.Errorf("%s is allowed", a)
		}
	}
	if g.Allows(netip.Addr{}) {
		t.Error("no address is allowed")
	}
	for _, a := range open {
		if !g.Allows(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
	networks, err := Networks("10.1.0.0/16, 127.0.0.1\n::1 fe80::/10")
	if err != nil {
		t.Fatal(err)
	}
	g = New(networks...)
	for a, want := range map[string]bool{"10.1.2.3": true, "10.2.0.1": false, "127.0.0.1": true, "::ffff:127.0.0.1": true, "127.0.0.2": false,
		"::1": true, "fe80::1%eth0": true, "1.1.1.1": true} {
		if got := g.Allows(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: allowed %v", a, got)
		}
	}
	if _, err := Networks("10.0.0.0/8 everything"); err == nil {
		t.Error("a word is taken for a network")
	}
}

// TestNothingAllowed reaches for servers of this machine by every name there is for it.
func TestNothingAllowed(t *testing.T) {
	hits := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	client := New().Client(Limits{Time: 5 * time.Second})
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1", "0x7f.1", "2130706433", "0177.0.0.1"} {
		resp, err := client.Get("http://" + host + port + "/")
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s was reached", host)
		}
	}
	if _, err := client.Get(server.URL); !errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
	if _, err := client.Get("file:///etc/passwd"); err == nil {
		t.Error("a file was read")
	}
	if hits > 0 {
		t.Errorf("%d requests came through", hits)
	}
}

func local(t *testing.T, h http.HandlerFunc) (*httptest.Server, *Guard) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server, New(netip.MustParsePrefix("127.0.0.0/8"))
}

func TestRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.Header.Get("Cookie"), r.Header.Get("Accept"))
	}))
	defer other.Close()
	server, g := local(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/inner":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/same":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		default:
			fmt.Fprint(w, r.Header.Get("X-Key"))
		}
	})
	client := g.Client(Limits{Time: 5 * time.Second})
	get := func(path string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer secret", "X-Key": "secret", "Cookie": "c=secret", "Accept": "a/b"} {
			r.Header.Set(name, value)
		}
		resp, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	if _, err := get("/loop"); !errors.Is(err, ErrRedirects) {
		t.Errorf("a loop: %v", err)
	}
	if _, err := get("/inner"); !errors.Is(err, ErrRefused) {
		t.Errorf("into the metadata service: %v", err)
	}
	if _, err := get("/file"); err == nil {
		t.Error("to a file")
	}
	if body, err := get("/other"); err != nil || body != "a/b" {
		t.Errorf("another origin got %q, %v", body, err)
	}
	if body, err := get("/same"); err != nil || body != "secret" {
		t.Errorf("the same origin got %q, %v", body, err)
	}
}

func TestSizes(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 4096)
	server, g := local(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/told":
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
			_, _ = w.Write(big)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(big); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 100 {
				_, _ = z.Write(big)
			}
			_ = z.Close()
		case "/headers":
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), string(big))
			}
		case "/slow":
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write(big)
		}
	})
	client := g.Client(Limits{Time: time.Second, Size: 4096})
	read := func(path string) (int, error) {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return len(body), err
	}
	if n, err := read("/just"); n != 4096 || err != nil {
		t.Errorf("as much as is allowed: %d, %v", n, err)
	}
	for _, path := range []string{"/told", "/endless", "/bomb"} {
		if n, err := read(path); !errors.Is(err, ErrTooLarge) || n > 4096 {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
	}
	for _, path := range []string{"/headers", "/slow"} {
		if _, err := read(path); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}
