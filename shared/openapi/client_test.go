package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// ask calls the function x of a document with the one operation, and returns the request as the server saw it.
func ask(t *testing.T, path, inner, arguments string, header http.Header) (*http.Request, string, Result) {
	t.Helper()
	var seen *http.Request
	var body []byte
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	}))
	defer api.Close()
	server := Server{URL: api.URL, Inline: `{"openapi":"3.1.0","paths":{"` + path + `":{"post":{"operationId":"x",` + inner + `}}}}`, Header: header}
	result, err := New(api.Client()).Call(t.Context(), server, Request{Function: "x", Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatal(err)
	}
	return seen, string(body), result
}

func TestWhereArgumentsGo(t *testing.T) {
	param := func(in, rest string) string {
		return `"parameters":[{"name":"p","in":"` + in + `","schema":{}` + rest + `}]`
	}
	const list, object = `{"p":["a","b c","d,e"]}`, `{"p":{"k":"v w","n":9007199254740993}}`
	for name, c := range map[string]struct{ path, inner, arguments, want string }{
		"query":                {"/x", param("query", ""), `{"p":"a b&c=ü","q":1}`, "/x?p=a%20b%26c%3D%C3%BC"},
		"number":               {"/x", param("query", ""), `{"p":9007199254740993}`, "/x?p=9007199254740993"},
		"left out":             {"/x", param("query", ""), `{"p":null}`, "/x"},
		"empty":                {"/x", param("query", ""), `{"p":""}`, "/x"},
		"empty but required":   {"/x", param("query", `,"required":true`), `{"p":""}`, "/x?p="},
		"list":                 {"/x", param("query", ""), list, "/x?p=a&p=b%20c&p=d%2Ce"},
		"list in one":          {"/x", param("query", `,"explode":false`), list, "/x?p=a,b%20c,d%2Ce"},
		"spaces":               {"/x", param("query", `,"style":"spaceDelimited"`), list, "/x?p=a%20b%20c%20d%2Ce"},
		"pipes":                {"/x", param("query", `,"style":"pipeDelimited"`), list, "/x?p=a%7Cb%20c%7Cd%2Ce"},
		"object":               {"/x", param("query", ""), object, "/x?k=v%20w&n=9007199254740993"},
		"object in one":        {"/x", param("query", `,"explode":false`), object, "/x?p=k,v%20w,n,9007199254740993"},
		"deep":                 {"/x", param("query", `,"style":"deepObject"`), `{"p":{"a":{"b":[1,2]}}}`, "/x?p%5Ba%5D%5Bb%5D%5B%5D=1&p%5Ba%5D%5Bb%5D%5B%5D=2"},
		"JSON":                 {"/x", `"parameters":[{"name":"p","in":"query","content":{"application/json":{}}}]`, `{"p":{"a":[1]}}`, "/x?p=%7B%22a%22%3A%5B1%5D%7D"},
		"path":                 {"/x/{p}/y", param("path", ""), `{"p":"../a b?c#d%2F"}`, "/x/..%2Fa%20b%3Fc%23d%252F/y"},
		"path list":            {"/x/{p}", param("path", ""), `{"p":["a","b/c"]}`, "/x/a,b%2Fc"},
		"label":                {"/x/{p}", param("path", `,"style":"label","explode":true`), `{"p":["a","b"]}`, "/x/.a.b"},
		"matrix":               {"/x/{p}", param("path", `,"style":"matrix"`), `{"p":["a","b"]}`, "/x/;p=a,b"},
		"matrix, one by one":   {"/x/{p}", param("path", `,"style":"matrix","explode":true`), `{"p":["a","b"]}`, "/x/;p=a;p=b"},
		"matrix of an object":  {"/x/{p}", param("path", `,"style":"matrix","explode":true`), `{"p":{"a":1,"b":2}}`, "/x/;a=1;b=2"},
		"a name that is taken": {"/x/{p}", `"parameters":[{"name":"p","in":"path"},{"name":"p","in":"query"}]`, `{"p":1}`, "/x/1?p=1"},
		"an odd name":          {"/x", `"parameters":[{"name":"f[a]","in":"query"}]`, `{"f_a":"1"}`, "/x?f%5Ba%5D=1"},
	} {
		seen, body, result := ask(t, c.path, c.inner, c.arguments, nil)
		if seen == nil || seen.RequestURI != c.want || body != "" || result.Failed {
			t.Errorf("%s: %v, body %q, %+v", name, seen, body, result)
		}
	}
	for _, c := range [][2]string{{"/x/{p}", `{}`}, {"/x/{p}", `{"p":""}`}, {"/x/{p}", `{"p":".."}`}, {"/x/{p}", `{"p":"."}`}, {"/x/{q}", `{"p":"1"}`}, {"/x/{p}", `[1]`}, {"/x/{p}", `{`}} {
		if seen, _, result := ask(t, c[0], param("path", ""), c[1], nil); seen != nil || !result.Failed {
			t.Errorf("%s with %s: %+v", c[0], c[1], result)
		}
	}
}

func TestHeadersAndCookies(t *testing.T) {
	inner := `"parameters":[{"name":"X-A","in":"header"},{"name":"X-Key","in":"header"},{"name":"c","in":"cookie"},{"name":"d","in":"cookie"},{"name":"Host","in":"header"}]`
	seen, _, _ := ask(t, "/x", inner, `{"X-A":["1","2\r\nX-Evil: 1"],"X-Key":"mine","c":"a; b=1","d":"ü","Host":"evil"}`,
		http.Header{"X-Key": {"theirs"}, "Authorization": {"Bearer k"}, "Cookie": {"s=1"}})
	if got := seen.Header.Get("X-A"); got != "1,2X-Evil: 1" {
		t.Errorf("X-A: %q", got)
	}
	if seen.Header.Get("X-Key") != "theirs" || seen.Header.Get("X-Evil") != "" || seen.Header.Get("Authorization") != "Bearer k" || seen.Host == "evil" {
		t.Errorf("headers %v, host %s", seen.Header, seen.Host)
	}
	if got := seen.Header.Get("Cookie"); got != "s=1; c=a%3B%20b=1; d=%C3%BC" {
		t.Errorf("cookie %q", got)
	}
}

func TestRequestBodies(t *testing.T) {
	content := func(kind, schema string) string {
		return `"requestBody":{"required":true,"content":{"` + kind + `":` + schema + `}}`
	}
	fields := `{"schema":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"},"l":{"type":"array","items":{"type":"string"}},"m":{"type":"object"}}}}`
	for name, c := range map[string]struct{ inner, arguments, kind, want string }{
		"JSON":           {content("application/json", fields), `{"n":9007199254740993,"a":"ü","z":1}`, "application/json", `{"a":"ü","n":9007199254740993}`},
		"no arguments":   {content("application/json", fields), ``, "application/json", `{}`},
		"null is null":   {content("application/json", fields), `{"a":null}`, "application/json", `{"a":null}`},
		"of a vendor":    {content("application/vnd.x+json; charset=utf-8", fields), `{"a":"1"}`, "application/vnd.x+json", `{"a":"1"}`},
		"list":           {content("application/json", `{"schema":{"type":"array","items":{}}}`), `{"body":[1,{"b":2,"a":1}]}`, "application/json", `[1,{"b":2,"a":1}]`},
		"form":           {content("application/x-www-form-urlencoded", fields), `{"a":"b c","l":["1","2"],"m":{"k":1}}`, "application/x-www-form-urlencoded", `a=b+c&l=1&l=2&m=%7B%22k%22%3A1%7D`},
		"deep form":      {content("application/x-www-form-urlencoded", fields[:len(fields)-1]+`,"encoding":{"m":{"style":"deepObject"}}}`), `{"m":{"k":{"j":1}}}`, "application/x-www-form-urlencoded", `m%5Bk%5D%5Bj%5D=1`},
		"text":           {content("text/plain", `{"schema":{"type":"string"}}`), `{"body":"hello"}`, "text/plain", `hello`},
		"bytes":          {content("application/octet-stream", `{"schema":{"type":"string","format":"binary"}}`), `{"body":"data:image/png;base64,AAEC"}`, "application/octet-stream", "\x00\x01\x02"},
		"JSON preferred": {`"requestBody":{"content":{"text/plain":{},"multipart/form-data":{},"application/json":` + fields + `}}`, `{"a":"1"}`, "application/json", `{"a":"1"}`},
	} {
		seen, body, _ := ask(t, "/x", c.inner, c.arguments, nil)
		if seen == nil || seen.Header.Get("Content-Type") != c.kind || body != c.want {
			t.Errorf("%s: %q, %v", name, body, seen)
		}
	}
	seen, body, _ := ask(t, "/x", `"requestBody":{"content":{"application/json":`+fields+`}}`, `{}`, nil)
	if body != "" || seen.Header.Get("Content-Type") != "" {
		t.Errorf("an optional body: %q", body)
	}
}

func TestMultipart(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 20); err != nil {
			t.Error(err)
			return
		}
		file, header, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		raw, _ := io.ReadAll(file)
		fmt.Fprintf(w, "%s %s %v %s", raw, header.Header.Get("Content-Type"), r.MultipartForm.Value["tags"], r.MultipartForm.Value["meta"])
	}))
	defer api.Close()
	s := Server{URL: api.URL, Inline: operation1(`"requestBody":{"content":{"multipart/form-data":{"schema":{"$ref":"#/components/schemas/F"}}}}`,
		`{"schemas":{"F":{"type":"object","properties":{"file":{"type":"string","format":"binary"},"tags":{"type":"array","items":{"type":"string"}},"meta":{"type":"object"}}}}}`)}
	result, err := New(api.Client()).Call(t.Context(), s, Request{Function: "x", Arguments: json.RawMessage(`{"file":"data:text/csv;base64,YSxi","tags":["1","2"],"meta":{"k":1}}`)})
	if err != nil || result.Content != `a,b text/csv [1 2] [{"k":1}]` {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestResults(t *testing.T) {
	inline := http.Header{"Content-Disposition": {"inline"}}
	with := func(kind string, more ...http.Header) http.Header {
		h := http.Header{"Content-Type": {kind}}
		for _, m := range more {
			for k, v := range m {
				h[k] = v
			}
		}
		return h
	}
	const visible = "{\n  \"status\": \"success\",\n  \"code\": \"ui_component\",\n  \"message\": \"f: Embedded UI result is active and visible to the user.\"\n}"
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   Result
	}{
		"object":           {200, with("application/json"), `{"b":9007199254740993,"a":"\u00fc<"}`, Result{Content: "{\n  \"b\": 9007199254740993,\n  \"a\": \"ü<\"\n}"}},
		"list":             {200, with("application/json"), `[1]`, Result{Content: "{\n  \"results\": [\n    1\n  ]\n}"}},
		"text in JSON":     {200, with("application/json"), `"t"`, Result{Content: "t"}},
		"number":           {200, with("application/json"), `1e5`, Result{Content: "1e5"}},
		"truth":            {200, with("application/json"), `true`, Result{Content: "True"}},
		"null":             {200, with("application/json"), `null`, Result{}},
		"broken JSON":      {200, with("application/json"), `{"a":`, Result{Content: `{"a":`}},
		"nothing":          {204, with(""), ``, Result{}},
		"text":             {200, with("text/plain; charset=utf-8"), `grüße`, Result{Content: "grüße"}},
		"Latin-1":          {200, with("text/plain; charset=iso-8859-1"), "gr\xfc\xdfe", Result{Content: "grüße"}},
		"page":             {200, with("text/html"), `<p>`, Result{Content: "<p>"}},
		"page to show":     {200, with("text/html; charset=utf-8", inline), `<p>`, Result{Content: visible, Embeds: []string{"<p>"}}},
		"address to show":  {200, with("application/json", inline, http.Header{"Location": {"https://e.org"}}), `{}`, Result{Content: visible, Embeds: []string{"https://e.org"}}},
		"pair, not a page": {200, with("application/json", inline), `["<p>",{}]`, Result{Content: "{\n  \"results\": [\n    \"<p>\",\n    {}\n  ]\n}"}},
		"image":            {200, with("image/png"), "\x89PNG", Result{Content: "f: Image file read successfully.", Images: []string{"data:image/png;base64,iVBORw=="}}},
		"image in text":    {200, with("application/json"), `"data:image/png;base64,iVBORw=="`, Result{Content: "f: Image file read successfully.", Images: []string{"data:image/png;base64,iVBORw=="}}},
		"image within":     {200, with("application/json"), `{"i":["data:image/png;base64,iVBORw=="]}`, Result{Content: "{\n  \"i\": [\n    \"[image]\"\n  ]\n}", Images: []string{"data:image/png;base64,iVBORw=="}}},
		"drawing":          {200, with("image/svg+xml"), "<svg/>", Result{Content: "<svg/>"}},
		"bytes":            {200, with("application/pdf"), "%PDF\x00", Result{Content: "f: a file of type application/pdf with 5 bytes, kept for the user.", Files: []string{"data:application/pdf;base64,JVBERgA="}}},
		"untold bytes":     {200, http.Header{}, "\x00\xff", Result{Content: "f: a file of type application/octet-stream with 2 bytes, kept for the user.", Files: []string{"data:application/octet-stream;base64,AP8="}}},
		"refusal":          {418, with("application/json"), `{"detail":"no"}`, Result{Content: "{\n  \"error\": \"HTTP error 418: {\\\"detail\\\":\\\"no\\\"}\"\n}", Failed: true}},
		"says it failed":   {200, with("application/json"), `{"success":false,"message":"m"}`, Result{Content: "{\n  \"success\": false,\n  \"message\": \"m\"\n}", Failed: true}},
		"page of an error": {404, with("text/html", inline), `<p>`, Result{Content: strings.NewReplacer("success", "error", "Embedded UI result is active and visible to the user.", "Client error 404 from embedded UI result.").Replace(visible), Embeds: []string{"<p>"}, Failed: true}},
	} {
		if got := resultOf("f", c.status, c.header, []byte(c.body)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

func TestDocumentIsKept(t *testing.T) {
	fetched, version, now := 0, "1", time.Unix(0, 0)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if version == "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("ETag", version)
		if r.Header.Get("If-None-Match") == version {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fetched++
		fmt.Fprint(w, `{"openapi":"3.0.0","info":{"title":"`+version+r.Header.Get("X-User")+`"},"paths":{}}`)
	}))
	defer api.Close()
	c := New(api.Client())
	c.Now = func() time.Time { return now }
	title := func(user string) string {
		d, err := c.Document(t.Context(), Server{URL: api.URL, Document: api.URL + "/openapi.json", Header: http.Header{"X-User": {user}}})
		if err != nil {
			return "error"
		}
		return d.Title()
	}
	expect := func(user, want string, times int) {
		t.Helper()
		if got := title(user); got != want || fetched != times {
			t.Errorf("title %s after %d, want %s after %d", got, fetched, want, times)
		}
	}
	expect("a", "1a", 1)
	expect("a", "1a", 1)
	expect("b", "1b", 2) // another user's document is another one
	now = now.Add(time.Minute)
	expect("a", "1a", 2) // unchanged
	version = "2"
	expect("a", "1a", 2) // still fresh
	now = now.Add(time.Minute)
	expect("a", "2a", 3)
	now, version = now.Add(time.Minute), ""
	expect("a", "error", 3)
	for i := range 3 * maxKept {
		version = "3"
		title(fmt.Sprint(i))
	}
	if len(c.kept) > maxKept {
		t.Errorf("%d documents are kept", len(c.kept))
	}
}

func TestWhereServersLie(t *testing.T) {
	d := func(servers string) *Document {
		return mustParse(t, `{"openapi":"3.0.0","servers":`+servers+`,"paths":{"/x":{"get":{}}}}`)
	}
	for _, c := range [][3]string{
		{"http://h", `[]`, "http://h"},
		{"http://h/", `[{"url":"/api/v1"}]`, "http://h/api/v1"},
		{"http://h/api", `[{"url":"v1/"}]`, "http://h/api/v1"},
		{"http://h/time", `[{"url":"/time"}]`, "http://h/time"},
		{"http://h/behind/proxy", `[{"url":"/"}]`, "http://h/behind/proxy"},
		{"http://h", `[{"url":"http://h/{v}","variables":{"v":{"default":"v2"}}}]`, "http://h/v2"},
		{"http://h", `[{"url":"http://evil/api"}]`, "http://h"},
		{"http://h", `[{"url":"https://h/api"}]`, "http://h"},
		{"http://h/a", `[{"url":"/a/../../b"}]`, "http://h/a"},
		{"http://h", `[{"url":"://"}]`, "http://h"},
	} {
		doc := d(c[1])
		got, err := doc.base(doc.operations[0], c[0], strings.TrimRight(c[0], "/")+"/openapi.json")
		if err != nil || strings.TrimRight(got.String(), "/") != c[2] {
			t.Errorf("%s with %s: %v, %v", c[0], c[1], got, err)
		}
	}
}

func TestFailures(t *testing.T) {
	stop := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	defer api.Close()
	defer close(stop)
	inline := `{"openapi":"3.0.0","paths":{"/x":{"get":{"operationId":"x"}}}}`
	call := func(ctx context.Context, s Server, function string) (Result, error) {
		return New(api.Client()).Call(ctx, s, Request{Function: function})
	}
	for name, s := range map[string]Server{
		"nobody there":            {URL: "http://127.0.0.1:1", Inline: inline},
		"no document":             {URL: "http://127.0.0.1:1", Document: "http://127.0.0.1:1/openapi.json"},
		"an address that is none": {URL: "http://[", Inline: inline},
		"a document that is none": {URL: api.URL, Inline: "no"},
	} {
		if r, err := call(t.Context(), s, "x"); err != nil || !r.Failed || strings.Contains(r.Content, "127.0.0.1") && name != "" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if r, err := call(t.Context(), Server{URL: api.URL, Inline: inline}, "gone"); err != nil || !r.Failed {
		t.Errorf("a function that is gone: %+v, %v", r, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := call(ctx, Server{URL: api.URL, Inline: inline}, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that is silent: %v", err)
	}
}
