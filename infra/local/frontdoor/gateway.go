package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"time"
)

// AWS's limits: of API Gateway for a request, of a synchronous invocation for its event and its buffered answer, of response
// streaming for the bytes of an answer and the silence within it, and of a buffered integration's time.
const (
	requestLimit  = 10 << 20
	payloadLimit  = 6 << 20
	streamLimit   = 200 << 20
	idleLimit     = 5 * time.Minute
	bufferedLimit = 29 * time.Second
)

// What the gateway itself answers, in the words of the template's gateway responses.
const (
	detailTooLarge = "The request is too large: at most 4.5 MB are accepted."
	detailTimeout  = "Endpoint request timed out"
	detailError    = "Internal server error"
)

// gateway routes requests as the stage of the REST API does, and upgrades to the WebSocket API.
type gateway struct {
	apiID, stage string
	queue        *queue
	timeout      time.Duration
	idle         time.Duration
	rest         http.Handler
	upgrades     http.Handler
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		g.upgrades.ServeHTTP(w, r)
		return
	}
	body, ok, err := readBody(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "Bad request")
		return
	}
	// A body travels as base64 in the event.
	if !ok || len(body)/3*4 > payloadLimit {
		refuse(w, http.StatusRequestEntityTooLarge, detailTooLarge)
		return
	}
	if resource, rest, ok := streamedRoute(r.URL.EscapedPath()); ok {
		g.stream(w, r, body, resource, rest)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.TransferEncoding = nil
	g.rest.ServeHTTP(w, r)
}

// stream has the function answer and passes every chunk on as it comes.
func (g *gateway) stream(w http.ResponseWriter, r *http.Request, body []byte, resource, rest string) {
	id := newID()
	payload, err := json.Marshal(proxyEvent(r, body, g, resource, rest, id))
	if err != nil || len(payload) > payloadLimit {
		refuse(w, http.StatusRequestEntityTooLarge, detailTooLarge)
		return
	}
	invocation := g.queue.invoke(id, payload, g.timeout)
	defer invocation.release()

	idle := time.NewTimer(g.idle)
	defer idle.Stop()
	end := time.NewTimer(time.Until(invocation.deadline))
	defer end.Stop()

	began, sent := false, 0
	for {
		select {
		case part := <-invocation.parts:
			switch {
			case part.prelude != nil:
				began = true
				part.prelude.write(w)
				flush(w)
			case part.end:
				if part.err == nil && began {
					return
				}
				log.Printf("%s %s: %v", r.Method, r.URL.Path, part.err)
				g.broken(w, began, http.StatusBadGateway, detailError)
				return
			default:
				if sent += len(part.chunk); sent > streamLimit {
					log.Printf("%s %s: the answer exceeds %d bytes", r.Method, r.URL.Path, streamLimit)
					g.broken(w, began, http.StatusBadGateway, detailError)
					return
				}
				// A client that has gone is not reported to the function: it runs on, as on AWS.
				if _, err := w.Write(part.chunk); err != nil {
					return
				}
				flush(w)
			}
			idle.Reset(g.idle)
		case <-idle.C:
			log.Printf("%s %s: silent for %v", r.Method, r.URL.Path, g.idle)
			g.broken(w, began, http.StatusGatewayTimeout, detailTimeout)
			return
		case <-end.C:
			log.Printf("%s %s: longer than %v", r.Method, r.URL.Path, g.timeout)
			g.broken(w, began, http.StatusGatewayTimeout, detailTimeout)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// broken ends an answer that cannot be completed: by an error, or by cutting the connection where a status has already been sent.
func (g *gateway) broken(w http.ResponseWriter, began bool, status int, detail string) {
	if began {
		panic(http.ErrAbortHandler)
	}
	refuse(w, status, detail)
}

// refuse answers as the template's gateway responses do.
func refuse(w http.ResponseWriter, status int, detail string) {
	body, _ := json.Marshal(map[string]string{"detail": detail})
	w.Header().Set("Content-Type", "application/json")
	for _, name := range []string{"Origin", "Headers", "Methods"} {
		w.Header().Set("Access-Control-Allow-"+name, "*")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func flush(w http.ResponseWriter) {
	// A client that has gone shows at the next write.
	if err := http.NewResponseController(w).Flush(); err != nil && errors.Is(err, http.ErrNotSupported) {
		log.Print(err)
	}
}
