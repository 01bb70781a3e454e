package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func mustParse(t *testing.T, document string) *Document {
	t.Helper()
	d, err := Parse([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// only is the one function of a document, as compact JSON of its parameters.
func only(t *testing.T, document string) string {
	t.Helper()
	specs := mustParse(t, document).Specs()
	if len(specs) != 1 {
		t.Fatalf("%d functions", len(specs))
	}
	return string(specs[0].Parameters)
}

func operation1(inner string, components ...string) string {
	c := "{}"
	if len(components) > 0 {
		c = components[0]
	}
	return `{"openapi":"3.1.0","paths":{"/x":{"post":{"operationId":"x",` + inner + `}}},"components":` + c + `}`
}

func TestParameters(t *testing.T) {
	for name, c := range map[string]struct{ parameter, want string }{
		"plain":        {`{"name":"a","in":"query","schema":{"type":"integer","default":1},"description":"D"}`, `{"a":{"type":"integer","description":"D"}}`},
		"its own":      {`{"name":"a","in":"query","schema":{"type":"integer","description":"S"},"description":"D"}`, `{"a":{"type":"integer","description":"S"}}`},
		"reference":    {`{"name":"a","in":"query","schema":{"$ref":"#/components/schemas/E"}}`, `{"a":{"type":"string","description":""}}`},
		"enum":         {`{"name":"a","in":"query","schema":{"type":"string","enum":["x","y"]},"description":"D"}`, `{"a":{"type":"string","description":"D. Possible values: x, y","enum":["x","y"]}}`},
		"list":         {`{"name":"a","in":"query","schema":{"type":"array","items":{"$ref":"#/components/schemas/E"}}}`, `{"a":{"type":"array","description":"","items":{"enum":["x","y"],"type":"string"}}}`},
		"nothing said": {`{"name":"a","in":"query"}`, `{"a":{"type":"string","description":""}}`},
		"or null":      {`{"name":"a","in":"query","schema":{"anyOf":[{"type":"integer"},{"type":"null"}],"title":"A"}}`, `{"a":{"type":"integer","description":""}}`},
		"choice":       {`{"name":"a","in":"query","schema":{"anyOf":[{"type":"integer"},{"type":"string"}]}}`, `{"a":{"anyOf":[{"type":"integer"},{"type":"string"}],"description":""}}`},
		"JSON":         {`{"name":"a","in":"query","content":{"application/json":{"schema":{"type":"object","properties":{"k":{"type":"string"}}}}}}`, `{"a":{"type":"object","description":"","properties":{"k":{"type":"string"}}}}`},
		"odd name":     {`{"name":"filter[a b]","in":"query"}`, `{"filter_a_b":{"type":"string","description":""}}`},
		"own header":   {`{"name":"X-A","in":"header"}`, `{"X-A":{"type":"string","description":""}}`},
		"never sent":   {`{"name":"Authorization","in":"header"}`, `{}`},
		"nowhere":      {`{"name":"a","in":"body"}`, `{}`},
		"leads away":   {`{"$ref":"https://example.com/p.json"}`, `{}`},
		"in circles":   {`{"$ref":"#/components/parameters/C"}`, `{}`},
	} {
		got := only(t, operation1(`"parameters":[`+c.parameter+`]`,
			`{"schemas":{"E":{"type":"string","enum":["x","y"]}},"parameters":{"C":{"$ref":"#/components/parameters/C"}}}`))
		var spec struct{ Properties, Required json.RawMessage }
		if err := json.Unmarshal([]byte(got), &spec); err != nil {
			t.Fatal(err)
		}
		if !sameJSON(t, string(spec.Properties), c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, spec.Properties, c.want)
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var va, vb any
	if json.Unmarshal([]byte(a), &va) != nil || json.Unmarshal([]byte(b), &vb) != nil {
		t.Fatalf("no JSON: %s, %s", a, b)
	}
	ra, _ := json.Marshal(va)
	rb, _ := json.Marshal(vb)
	return string(ra) == string(rb)
}

func TestBodies(t *testing.T) {
	const components = `{"schemas":{
		"Pet":{"oneOf":[{"$ref":"#/components/schemas/Cat"},{"$ref":"#/components/schemas/Dog"}]},
		"Cat":{"type":"object","required":["name","lives"],"properties":{"name":{"type":"string"},"lives":{"type":"integer"}}},
		"Dog":{"type":"object","required":["name"],"properties":{"name":{"type":"string","maxLength":9},"tail":{"type":"boolean"}}},
		"Node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/components/schemas/Node"}}}}}`
	for name, c := range map[string]struct{ body, want string }{
		"fields": {`{"type":"object","required":["a","gone"],"properties":{"a":{"type":"string","title":"A"},"b":{"type":["integer","null"]}}}`,
			`{"type":"object","properties":{"a":{"type":"string","title":"A"},"b":{"type":"integer"}},"required":["a"]}`},
		"alternatives": {`{"$ref":"#/components/schemas/Pet"}`,
			`{"type":"object","properties":{"name":{"anyOf":[{"type":"string"},{"type":"string","maxLength":9}]},"lives":{"type":"integer"},"tail":{"type":"boolean"}},"required":["name"]}`},
		"all of": {`{"allOf":[{"$ref":"#/components/schemas/Cat"},{"properties":{"name":{"description":"who"}},"required":["name"]}],"properties":{"x":{"type":"string"}}}`,
			`{"type":"object","properties":{"x":{"type":"string"},"name":{"type":"string","description":"who"},"lives":{"type":"integer"}},"required":["name","lives"]}`},
		"circle": {`{"$ref":"#/components/schemas/Node"}`,
			`{"type":"object","properties":{"v":{"type":"integer"},"next":{"type":"object"}},"required":[]}`},
		"list": {`{"type":"array","items":{"type":"string"}}`,
			`{"type":"object","properties":{"body":{"type":"array","items":{"type":"string"}}},"required":["body"]}`},
		"any object": {`{"type":"object","additionalProperties":{"type":"string"}}`,
			`{"type":"object","properties":{"body":{"type":"object","additionalProperties":{"type":"string"}}},"required":["body"]}`},
		"read only": {`{"type":"object","required":["id"],"properties":{"id":{"type":"string","readOnly":true},"a":{"type":"string"}}}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":[]}`},
		"3.0": {`{"type":"object","properties":{"n":{"type":"number","minimum":1,"exclusiveMinimum":true,"nullable":true,"example":3},"m":{"type":"integer","maximum":9,"exclusiveMaximum":false},"f":{"type":"file"},"l":{"type":"array"},"x":{"type":"string","x-thing":1,"pattern":"(?=a)b","enum":["a",null,"a"]}}}`,
			`{"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":1,"example":3},"m":{"type":"integer","maximum":9},"f":{"type":"string"},"l":{"type":"array","items":{}},"x":{"type":"string","enum":["a"]}},"required":[]}`},
		"siblings of a reference": {`{"type":"object","properties":{"c":{"$ref":"#/components/schemas/Cat","description":"mine"}}}`,
			`{"type":"object","properties":{"c":{"description":"mine","type":"object","properties":{"name":{"type":"string"},"lives":{"type":"integer"}},"required":["name","lives"]}},"required":[]}`},
		"exact": {`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`,
			`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}},"required":[]}`},
	} {
		got := only(t, operation1(`"requestBody":{"required":true,"content":{"application/json":{"schema":`+c.body+`}}}`, components))
		if !sameJSON(t, got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	if got := only(t, operation1(`"requestBody":{"content":{"application/json":{"schema":{"properties":{"z":{},"a":{"maximum":9007199254740993}}}}}}`)); !strings.Contains(got, `"z":{},"a":{"maximum":9007199254740993}`) {
		t.Errorf("order and digits: %s", got)
	}
}

func TestNames(t *testing.T) {
	d := mustParse(t, `{"openapi":"3.0.0","paths":{
		"/repos/{owner}":{"get":{"operationId":"repos/get","summary":"S","description":" "},"delete":{"operationId":""},"put":{}},
		"/b":{"get":{"operationId":"same"},"post":{"operationId":"same"}},
		"/c":{"get":{"operationId":"`+strings.Repeat("n", 70)+`"},"post":{"operationId":"ключ"},"patch":{"operationId":"_a_"}},
		"no":{"get":{"operationId":"no"}},"x-y":{"get":{"operationId":"no"}}}}`)
	var got []string
	for _, s := range d.Specs() {
		got = append(got, s.Name)
		if len(s.Name) > maxName || s.Name == "" || safe(s.Name) != s.Name {
			t.Errorf("name %q", s.Name)
		}
		if !json.Valid(s.Parameters) {
			t.Errorf("%s: %s", s.Name, s.Parameters)
		}
	}
	want := "repos_get delete_repos_owner put_repos_owner same same_"
	if text := strings.Join(got, " "); !strings.HasPrefix(text, want) || len(got) != 8 || got[7] != "_a_" {
		t.Errorf("names %v", got)
	}
	if d.Specs()[0].Description != "S" || d.Specs()[1].Description != "DELETE /repos/{owner}" {
		t.Error("descriptions")
	}
}

func TestYAML(t *testing.T) {
	d := mustParse(t, `
openapi: 3.0.3
info: {title: T, description: D}
x-common: &c
  responses: {200: {description: ok}}
paths:
  /a:
    get:
      <<: *c
      operationId: a
      parameters:
        - {name: since, in: query, schema: {type: string, enum: [2024-01-01, yes, 007]}}
        - {name: n, in: query, schema: {type: integer, enum: [0x10, 1_000, 9007199254740993]}}
`)
	if d.Title() != "T" || d.Description() != "D" || !json.Valid(d.JSON()) {
		t.Errorf("%s", d.JSON())
	}
	if got := string(d.Specs()[0].Parameters); !strings.Contains(got, `"enum":["2024-01-01","yes",7]`) || !strings.Contains(got, `"enum":[16,1000,9007199254740993]`) {
		t.Error(got)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ",") + "]\n"
	}
	for _, text := range []string{"", "[]", "a: &a [*a]", "openapi: 3.0.0\npaths: &p {a: *p}", strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000), bomb, "\x00", "{", "paths: 5"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%.30q is a document", text)
		}
	}
}

// TestGrowth: schemas that refer to each other in every field would have more of them than there are atoms.
func TestGrowth(t *testing.T) {
	var all []string
	for i := range 30 {
		var fields []string
		for j := range 30 {
			fields = append(fields, fmt.Sprintf(`"f%d":{"$ref":"#/components/schemas/S%d"}`, j, (i+j)%30))
		}
		all = append(all, fmt.Sprintf(`"S%d":{"type":"object","properties":{%s}}`, i, strings.Join(fields, ",")))
	}
	got := only(t, operation1(`"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/S0"}}}}`, `{"schemas":{`+strings.Join(all, ",")+`}}`))
	if len(got) > 2_000_000 || !json.Valid([]byte(got)) {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(operation1(`"parameters":[{"name":"a","in":"query","schema":{"$ref":"#/components/schemas/E"}}]`))
	f.Add("openapi: 3.0.0\npaths: {/a: {get: {requestBody: {$ref: '#/paths/~1a/get'}}}}")
	f.Fuzz(func(t *testing.T, document string) {
		d, err := Parse([]byte(document))
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range d.Specs() {
			if seen[s.Name] || s.Name == "" || len(s.Name) > maxName {
				t.Errorf("name %q", s.Name)
			}
			seen[s.Name] = true
			if !json.Valid(s.Parameters) {
				t.Errorf("%s: %s", s.Name, s.Parameters)
			}
		}
	})
}

// FuzzJSON holds the reader against the standard library's.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1,-0.5e+3,"\u00fc\ud83d\ude00\\",true,false,null,{}],"a":2}`, "[", `"\ud800"`, "01", "1.", "\"\xff\"", ` [ ] `, `{"a":1,}`, "tru", "-"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseJSON([]byte(text))
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		wantErr := d.Decode(&want)
		if valid := json.Valid([]byte(text)); valid != (err == nil) {
			t.Fatalf("%q: %v, valid %v", text, err, valid)
		}
		if err != nil || wantErr != nil {
			return
		}
		var got any
		d = json.NewDecoder(strings.NewReader(string(encode(v))))
		d.UseNumber()
		if err := d.Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: read %v, want %v (%v)", text, got, want, err)
		}
	})
}
