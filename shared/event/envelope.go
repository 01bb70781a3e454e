package event

// The envelopes of a streamed answer (spec/socket.md section 2). Index is the item's place in the whole message.

func response(kind string, index int, fields map[string]any) Event {
	data := map[string]any{"type": "response." + kind, "output_index": index}
	for k, v := range fields {
		data[k] = v
	}
	return New(Response, data)
}

// ItemAdded begins an item: a call or reasoning.
func ItemAdded(index int, item map[string]any) Event {
	return response("output_item.added", index, map[string]any{"item": item})
}

// ItemDone is an item in its final form, or in a later one.
func ItemDone(index int, item map[string]any) Event {
	return response("output_item.done", index, map[string]any{"item": item})
}

// ArgumentsDelta appends to a call's arguments.
func ArgumentsDelta(index int, id, delta string) Event {
	return response("function_call_arguments.delta", index, map[string]any{"item_id": id, "delta": delta})
}

// ArgumentsDone is a call's whole arguments.
func ArgumentsDone(index int, id, arguments string) Event {
	return response("function_call_arguments.done", index, map[string]any{"item_id": id, "arguments": arguments})
}

// TextDelta appends to a text item; the first one makes it.
func TextDelta(index int, id, delta string) Event {
	return response("output_text.delta", index, map[string]any{"item_id": id, "content_index": 0, "delta": delta})
}

// ReasoningDelta appends to a reasoning item.
func ReasoningDelta(index int, id, delta string) Event {
	return response("reasoning_text.delta", index, map[string]any{"item_id": id, "content_index": 0, "delta": delta})
}

// Output replaces all items of the message.
func Output(output []any) Event { return New(Completion, map[string]any{"output": output}) }

// Usage tells what the provider has reported so far.
func Usage(usage map[string]any) Event { return New(Completion, map[string]any{"usage": usage}) }

// ActiveNow tells whether a run of the message is under way.
func ActiveNow(active bool) Event {
	return New(Active, map[string]any{"active": active, "folder_id": nil})
}
