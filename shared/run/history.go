package run

import (
	"toolrounds/shared/chat"
)

// The result that a call without one gets when it is replayed to a model: providers refuse a call without a result.
const textNoResult = "Error: the tool call was interrupted before it gave a result."

// branch returns the messages from the root of the tree to the message id, in order.
func branch(tree *chat.Tree, id string) []chat.Message {
	var back []chat.Message
	seen := map[string]bool{}
	for id != "" && !seen[id] {
		seen[id] = true
		r, ok := tree.Messages[id]
		if !ok {
			break
		}
		back = append(back, r.Message)
		id = r.Message.Text("parentId")
	}
	forward := make([]chat.Message, 0, len(back))
	for i := len(back) - 1; i >= 0; i-- {
		forward = append(forward, back[i])
	}
	return forward
}

// history is what the model is sent of a stored branch: an answer's tool rounds as calls and results, then its text.
func history(messages []chat.Message) []any {
	var out []any
	for _, m := range messages {
		if output := list(m, "output"); m.Text("role") == "assistant" && len(output) > 0 {
			out = append(out, replay(output)...)
			continue
		}
		content := m["content"]
		if content == nil {
			content = ""
		}
		if m.Text("role") == "assistant" && contentText(content) == "" {
			continue // a placeholder or a stopped answer without text
		}
		out = append(out, map[string]any{"role": m["role"], "content": content})
	}
	return out
}

// replay turns an answer's output items into messages. Each call gets exactly one result, a made-up one where none was stored, and a
// result without its call is left out (promise P4).
func replay(output []any) []any {
	results := map[string]map[string]any{}
	for _, v := range output {
		if item, ok := v.(map[string]any); ok && text(item, "type") == "function_call_output" {
			if id := text(item, "call_id"); results[id] == nil {
				results[id] = item
			}
		}
	}
	var out []any
	var said string
	var calls []any
	var answers []map[string]any
	flush := func() {
		if len(calls) > 0 {
			out = append(out, map[string]any{"role": "assistant", "content": said, "tool_calls": calls})
			var images []any
			for _, a := range answers {
				out = append(out, map[string]any{"role": "tool", "tool_call_id": a["id"], "content": a["content"]})
				images = append(images, list(a, "images")...)
			}
			if images != nil {
				out = append(out, imageMessage(images))
			}
		} else if said != "" {
			out = append(out, map[string]any{"role": "assistant", "content": said})
		}
		said, calls, answers = "", nil, nil
	}
	for _, v := range output {
		item, _ := v.(map[string]any)
		switch text(item, "type") {
		case "message":
			if len(calls) > 0 {
				flush()
			}
			if said != "" {
				said += "\n"
			}
			said += itemText(item)
		case "reasoning":
			if len(calls) > 0 {
				flush()
			}
		case "function_call":
			id := text(item, "call_id")
			result, images := textNoResult, []any(nil)
			if r := results[id]; r != nil {
				result, images = resultText(r), resultImages(r)
			}
			calls = append(calls, toolCall(id, text(item, "name"), sound(text(item, "arguments"))))
			answers = append(answers, map[string]any{"id": id, "content": result, "images": images})
		case "function_call_output":
			// the next call belongs to the next round
			if len(calls) > 0 && text(answers[len(answers)-1], "id") == text(item, "call_id") {
				flush()
			}
		}
	}
	flush()
	return out
}

func toolCall(id, name, arguments string) map[string]any {
	return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}
}

// imageMessage carries tools' images to the model: tool messages hold only text.
func imageMessage(urls []any) map[string]any {
	parts := []any{map[string]any{"type": "text", "text": "The images that the tools returned:"}}
	for _, u := range urls {
		parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": u}})
	}
	return map[string]any{"role": "user", "content": parts}
}

func itemText(item map[string]any) string { return partText(list(item, "content")) }

func resultText(item map[string]any) string { return partText(list(item, "output")) }

func partText(parts []any) string {
	s := ""
	for _, v := range parts {
		if p, ok := v.(map[string]any); ok {
			s += text(p, "text")
		}
	}
	return s
}

func resultImages(item map[string]any) []any {
	var urls []any
	for _, v := range list(item, "output") {
		if p, ok := v.(map[string]any); ok && text(p, "type") == "input_image" {
			urls = append(urls, p["image_url"])
		}
	}
	return urls
}
