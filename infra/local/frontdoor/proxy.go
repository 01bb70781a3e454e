package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
)

// stagePath is where the emulator serves a stage of an API.
func stagePath(api, stage string) string { return "/_aws/execute-api/" + api + "/" + stage }

// transport never asks for compression by itself: the client's wishes go through unchanged.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	t.Proxy = nil
	t.MaxIdleConnsPerHost = 256
	return t
}

// newRESTProxy passes requests to the emulator's REST API, with the limits of a buffered integration.
func newRESTProxy(target *url.URL, api, stage string) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: transport(),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.Host = target.Host
			// The emulator decodes a path once more than API Gateway does, so it gets one that is encoded once more.
			path := strings.ReplaceAll(r.In.URL.EscapedPath(), "%", "%25")
			r.Out.URL = withPath(target, stagePath(api, stage)+path, r.In.URL.RawQuery)
			if r.Out.Header.Get("Accept") == "" {
				// The emulator decodes base64 answers only for whom accepts something.
				r.Out.Header.Set("Accept", "*/*")
			}
		},
		ModifyResponse: buffered,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
			if errors.Is(err, context.DeadlineExceeded) {
				refuse(w, http.StatusGatewayTimeout, detailTimeout)
				return
			}
			refuse(w, http.StatusBadGateway, detailError)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The request's own end is not part of it: a function runs on when its client has gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), bufferedLimit)
		defer cancel()
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})
}

// buffered checks an answer of the REST API: its size, and that it is not the emulator's own account of a failure, which AWS
// would not show to a client.
func buffered(r *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, payloadLimit+1))
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	if len(body) > payloadLimit {
		return errors.New("the buffered answer is larger than 6 MB")
	}
	if r.StatusCode == http.StatusBadGateway {
		var own map[string]json.RawMessage
		if json.Unmarshal(body, &own) == nil && own["detail"] == nil && (own["message"] != nil || own["errorMessage"] != nil) {
			return errors.New("the function failed: " + string(body))
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if r.Request.Method != http.MethodHead {
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

// newUpgradeProxy tunnels WebSocket connections. The emulator takes any path below the stage; the real server's clients use
// /ws/socket.io/.
func newUpgradeProxy(target *url.URL, api, stage string) http.Handler {
	return &httputil.ReverseProxy{
		Transport: transport(),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.Host = target.Host
			path := strings.TrimPrefix(r.In.URL.EscapedPath(), "/ws")
			r.Out.URL = withPath(target, stagePath(api, stage)+path, r.In.URL.RawQuery)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Printf("upgrade %s: %v", r.URL.Path, err)
			refuse(w, http.StatusBadGateway, detailError)
		},
	}
}

// withPath is target with an encoded path and a query.
func withPath(target *url.URL, path, query string) *url.URL {
	out := *target
	out.RawQuery = query
	if decoded, err := url.PathUnescape(path); err == nil {
		out.Path, out.RawPath = decoded, path
	} else {
		out.Path = path
	}
	return &out
}
