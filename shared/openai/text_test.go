package openai

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// brief shows blocks in one line: text as it is, reasoning in brackets with its start tag unless it came in a field.
func brief(blocks []Block) string {
	var parts []string
	for _, b := range blocks {
		switch {
		case !b.Reasoning:
			parts = append(parts, b.Text)
		case b.Attributes["type"] == "reasoning_content":
			parts = append(parts, "["+b.Text+"]")
		default:
			parts = append(parts, "["+b.StartTag+" "+b.Text+"]")
		}
	}
	return strings.Join(parts, "|")
}

func TestReasoning(t *testing.T) {
	tests := []struct {
		name   string
		tags   [][2]string
		deltas []string
		want   string
	}{
		{"text", nil, []string{saying("a"), saying("b")}, "ab"},
		{"field", nil, []string{`{"reasoning_content":"I "}`, `{"reasoning_content":"think"}`, saying("so")}, "[I think]|so"},
		{"the other field", nil, []string{`{"reasoning":"I think"}`, saying("so")}, "[I think]|so"},
		{"both fields at once", nil, []string{`{"reasoning":"I think","reasoning_content":"I think","content":""}`}, "[I think]"},
		{"again after text", nil, []string{`{"reasoning":"a"}`, saying("b"), `{"reasoning":"c"}`, saying("d")}, "[a]|b|[c]|d"},
		{"field and text in one delta", nil, []string{`{"reasoning_content":"a","content":"b"}`}, "[a]|b"},
		{"tag", nil, []string{saying("<think>inner</think>outer")}, "[<think> inner]|outer"},
		{"tag, white space around", nil, []string{saying("\n<think>\ninner \n</think>\n\nouter \n")}, "[<think> inner]|outer \n"},
		{"tag cut anywhere", nil, strings.Split(`{"content":"<thi"}~{"content":"nk"}~{"content":">in"}~{"content":"ner</"}~{"content":"think"}~{"content":">\n"}~{"content":" outer"}`, "~"),
			"[<think> inner]|outer"},
		{"text before a tag", nil, []string{saying("Hm. <thinking>x</thinking>y")}, "Hm. |[<thinking> x]|y"},
		{"tag with attributes", nil, []string{saying(`<think dur`), saying(`ation="3">x</think>y`)}, "[<think> x]|y"},
		{"two tags", nil, []string{saying("<thought>a</thought>b<reason>c</reason>d")}, "[<thought> a]|b|[<reason> c]|d"},
		{"not in brackets", nil, []string{saying("<|begin_of_thought|>a<|end_of_"), saying("thought|>b ◁think▷c◁/think▷")}, "[<|begin_of_thought|> a]|b |[◁think▷ c]"},
		{"no end tag", nil, []string{saying("<think>inner ")}, "[<think> inner ]"},
		{"half an end tag", nil, []string{saying("<think>inner </thi")}, "[<think> inner </thi]"},
		{"half a start tag", nil, []string{saying("a <thi")}, "a <thi"},
		{"half a tag before a call", nil, []string{saying("a <thi"), calling(`{"id":"a","function":{"name":"f"}}`), saying("nk>b")}, "a <think>b"},
		{"empty reasoning", nil, []string{saying("a<think>\n</think>\n\nb")}, "ab"},
		{"only empty reasoning", nil, []string{saying("<think></think>")}, ""},
		{"other tags", nil, []string{saying("a < b <thinker> <b> <think"), saying("er>")}, "a < b <thinker> <b> <thinker>"},
		{"another tag's end", nil, []string{saying("<think>a</thinking>b</think>c")}, "[<think> a</thinking>b]|c"},
		{"end tag alone", nil, []string{saying("a</think>b")}, "a</think>b"},
		{"start tag that never ends", nil, []string{saying("<think " + strings.Repeat("x", 600) + ">a")}, "<think " + strings.Repeat("x", 600) + ">a"},
		{"tags off", [][2]string{}, []string{saying("<think>a</think>b")}, "<think>a</think>b"},
		{"own tags", [][2]string{{"[[", "]]"}}, []string{saying("<think>["), saying("[a]"), saying("]b")}, "<think>|[[[ a]|b"},
		{"field within a tag", nil, []string{saying("<think>a"), `{"reasoning":"b"}`, saying("c</think>")}, "[<think> a]|[b]|c</think>"},
		{"parts", nil, []string{`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},{"type":"text","text":"b"}]}`, `{"content":["c"]}`}, "[a]|bc"},
		{"refusal", nil, []string{`{"content":null,"refusal":"No."}`}, "No."},
		{"surrogates cut between deltas", nil, []string{`{"content":"a\ud83d"}`, `{"content":""}`, `{"content":"\ude80b"}`}, "a🚀b"},
		{"surrogates in reasoning", nil, []string{`{"reasoning":"a\uD83D"}`, `{"reasoning":"\uDE80b"}`}, "[a🚀b]"},
		{"lone surrogates", nil, []string{`{"content":"\ude80a\ud83d"}`, `{"content":"b\ud83d"}`}, "\uFFFDa\uFFFDb\uFFFD"},
		{"an escaped backslash is no surrogate", nil, []string{`{"content":"\\ud83d"}`, `{"content":"\\\\ud83d"}`}, `\ud83d\\ud83d`},
		{"half a pair of surrogates at the end of reasoning", nil, []string{`{"reasoning":"a\ud83d"}`}, "[a\uFFFD]"},
		{"a tag and nothing more", nil, []string{saying("a<think> ")}, "a"},
		{"a tag, then the field", nil, []string{saying("<think>"), `{"reasoning":"b"}`, saying("c")}, "[b]|c"},
		{"wrong types", nil, []string{`{"content":7,"reasoning":{"a":1},"tool_calls":"x"}`, `null`, `[]`, saying("a")}, "a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, _ := read(t, StreamOptions{ReasoningTags: test.tags}, strings.NewReader(sse("stop", test.deltas...)))
			if got := brief(r.Blocks); got != test.want || r.Err != nil {
				t.Errorf("got %q, error %v\nwant %q", got, r.Err, test.want)
			}
		})
	}
}

// However the text is cut into deltas, the blocks are the same, and no part of a tag is shown as text on the way.
func TestTagsCutEverywhere(t *testing.T) {
	const text = "Hm. <think a=\"b\">\n inner < é</th ink> </think>\n outer <b> ◁think▷x◁/think▷ end"
	want, _ := read(t, StreamOptions{}, strings.NewReader(sse("stop", saying(text))))
	if got := want.Blocks[1].Attributes; !reflect.DeepEqual(got, map[string]string{"a": "b"}) {
		t.Errorf("attributes %v", got)
	}
	runes := []rune(text)
	for size := 1; size < len(runes); size++ {
		var deltas []string
		for part := range slices.Chunk(runes, size) {
			deltas = append(deltas, saying(string(part)))
		}
		a := newAssembler(StreamOptions{}, func(d Delta) error {
			if strings.Contains(d.Text, "<thi") || strings.Contains(d.Text, "◁") || strings.Contains(d.Text, "</think") {
				return fmt.Errorf("a tag is shown: %q", d.Text)
			}
			return nil
		})
		done, err := readFrames(strings.NewReader(sse("stop", deltas...)), a.frame)
		got := a.finish(done, err, "")
		if got.Err != nil || !reflect.DeepEqual(got.Blocks, want.Blocks) {
			t.Errorf("pieces of %d: %q, %v; want %q", size, brief(got.Blocks), got.Err, brief(want.Blocks))
		}
	}
}
