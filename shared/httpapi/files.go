package httpapi

import (
	"net/http"
	"strconv"
	"strings"
)

// fileContent gives a file as it is. What a browser would run is given as a download: it came out of somebody's tool.
func (s *server) fileContent(w http.ResponseWriter, r *http.Request) error {
	f, err := s.Files.Read(r.Context(), s.caller(r).User, r.PathValue("id"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", f.Type)
	h.Set("Content-Length", strconv.Itoa(len(f.Content)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if !strings.HasPrefix(f.Type, "image/") || strings.Contains(f.Type, "svg") {
		h.Set("Content-Disposition", "attachment")
	}
	_, _ = w.Write(f.Content) // a caller that has gone needs no answer
	return nil
}
