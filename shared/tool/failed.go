package tool

import (
	"encoding/json"
	"strings"
)

// Failed tells whether the text of a result says that the call failed (spec/http.md D3.10): it begins like an error, or is an object
// that tells of one.
func Failed(content string) bool {
	start := strings.TrimSpace(content)
	head := strings.ToLower(start[:min(len(start), 16)])
	for _, word := range []string{"error:", "exception:", "traceback", "http error!"} {
		if strings.HasPrefix(head, word) {
			return true
		}
	}
	if !strings.HasPrefix(start, "{") {
		return false
	}
	var o struct {
		Error   json.RawMessage `json:"error"`
		Status  any             `json:"status"`
		Success any             `json:"success"`
		OK      any             `json:"ok"`
		Message any             `json:"message"`
	}
	if json.Unmarshal([]byte(start), &o) != nil {
		return false
	}
	switch string(o.Error) {
	case "", "null", `""`, "false", "0", "[]", "{}":
	default:
		return true
	}
	if status, ok := o.Status.(string); ok && (strings.EqualFold(status, "error") || strings.EqualFold(status, "failed")) {
		return true
	}
	message, said := o.Message.(string)
	return (o.Success == false || o.OK == false) && said && message != ""
}
