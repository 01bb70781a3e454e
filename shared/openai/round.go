package openai

import "strings"

// Kind says what a Delta carries.
type Kind int

// The kinds of Delta.
const (
	// Text and Reasoning append Delta.Text to block Delta.Block. A block that does not exist yet begins with it: a Text block, or
	// a Reasoning block with the tags and attributes of the reasoning_content field. (One that a tag begins comes by Snapshot.)
	Text Kind = iota
	Reasoning
	// CallStarted begins call Delta.Call with Delta.ID and Delta.Name and empty arguments. Calls may start out of order.
	CallStarted
	// CallArguments appends Delta.Text to the arguments of call Delta.Call, which has started.
	CallArguments
	// Snapshot replaces everything shown so far by Delta.Blocks and Delta.Calls: a tag such as <think> has turned text into
	// reasoning or ended it, a name has changed, or calls turned out to be several.
	Snapshot
	// UsageReport says that the provider reported tokens: Delta.Usage is all it has reported so far.
	UsageReport
)

// Delta is one change of the answer while it comes.
type Delta struct {
	Kind   Kind
	Block  int            // Text, Reasoning: index into the blocks
	Call   int            // CallStarted, CallArguments: index into the calls
	Text   string         // Text, Reasoning, CallArguments: the piece, never empty, always whole characters
	ID     string         // CallStarted
	Name   string         // CallStarted
	Blocks []Block        // Snapshot: a copy
	Calls  []Call         // Snapshot: a copy
	Usage  map[string]any // UsageReport: a copy
}

// Block is a stretch of the answer that is all text or all reasoning.
type Block struct {
	Reasoning bool
	Text      string
	// StartTag and EndTag are those of reasoning: the tags that enclosed it in the text, or <think> and </think> for reasoning
	// that came in a field of its own. Empty for text.
	StartTag, EndTag string
	// Attributes of reasoning: {"type": "reasoning_content"} when it came in a field of its own, else those written in the tag,
	// mostly none. Nil for text.
	Attributes map[string]string
	// Closed is false while more may come; in a Round only for reasoning whose end tag never came and the last block.
	Closed bool
}

// Call is one call of a tool as the model asked for it.
type Call struct {
	ID        string // unique in the Round and among the prior ids; the provider's own where possible
	Name      string // as the model wrote it, maybe unknown, maybe empty
	Arguments string // as the model wrote it, not checked; see tool.ParseArguments
	Index     int    // position in Round.Calls
}

// The values of Round.Finish.
const (
	FinishStop      = "stop"
	FinishToolCalls = "tool_calls" // there are calls, whatever the provider says
	FinishLength    = "length"     // cut at a token limit, and there are no calls
	FinishError     = "error"      // Round.Err is set
)

// Round is one finished answer of a model.
type Round struct {
	Blocks []Block
	Calls  []Call
	// Usage is what the provider reported, numbers as json.Number; later reports win key by key. Nil when it reported none.
	Usage map[string]any
	// Finish is one of the Finish constants, Reason the provider's last finish_reason, "" if none came.
	Finish, Reason string
	// Err is why the answer is not complete. What came before it is kept.
	Err error
}

// Text is the answer without reasoning: the texts of the blocks joined by newlines.
func (r *Round) Text() string { return joinBlocks(r.Blocks, false) }

// Reasoning is the reasoning of the answer, joined by newlines.
func (r *Round) Reasoning() string { return joinBlocks(r.Blocks, true) }

func joinBlocks(blocks []Block, reasoning bool) string {
	var texts []string
	for _, b := range blocks {
		if b.Reasoning == reasoning {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// StreamOptions says how an answer is assembled. The zero value is good.
type StreamOptions struct {
	// PriorCallIDs are ids of calls that were used before in the same message; a call that repeats one gets a new id.
	PriorCallIDs []string
	// KnownTools are the names offered to the model. They settle where a name that comes in pieces ends, and let a call be shown
	// as started as soon as its name is complete; they do not restrict what the model may call.
	KnownTools []string
	// ReasoningTags are pairs of start and end tag that enclose reasoning in the text. Nil: DefaultReasoningTags. Empty but not
	// nil: tags are ordinary text. A start tag in angle brackets may carry attributes.
	ReasoningTags [][2]string
	// NewID makes ids for calls; nil: "call_" and 24 random hexadecimal digits.
	NewID func() string
}

// DefaultReasoningTags are the tags that Open WebUI recognises.
func DefaultReasoningTags() [][2]string {
	return [][2]string{
		{"<think>", "</think>"},
		{"<thinking>", "</thinking>"},
		{"<reason>", "</reason>"},
		{"<reasoning>", "</reasoning>"},
		{"<thought>", "</thought>"},
		{"<Thought>", "</Thought>"},
		{"<|begin_of_thought|>", "<|end_of_thought|>"},
		{"◁think▷", "◁/think▷"},
	}
}
