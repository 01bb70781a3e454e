package httpapi

import (
	"embed"
	"net/http"
	"strings"
)

// The console is one page: script and style are put into it, so that it works at whatever path it is served.
//
//go:embed console
var consoleFiles embed.FS

// consoleRoute is GET /console, a small client for people (console/console.js).
func (s *server) consoleRoute() Route {
	read := func(name string) string {
		raw, err := consoleFiles.ReadFile("console/" + name)
		if err != nil {
			panic("httpapi: " + err.Error()) // it is part of the program
		}
		return string(raw)
	}
	page := []byte(strings.NewReplacer("/*STYLE*/", read("console.css"), "/*SCRIPT*/", read("console.js")).Replace(read("index.html")))
	return Route{"GET", "/console", Open, func(w http.ResponseWriter, _ *http.Request) error {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		// What tools embed runs in frames without an origin and inherits this policy, hence the inline scripts.
		h.Set("Content-Security-Policy", "base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'")
		_, err := w.Write(page)
		return err
	}}
}
