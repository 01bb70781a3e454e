package infra

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The edge sends every websocket, whatever path its client uses, to the stage of the WebSocket API, with its query.
func TestEdge(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("the edge's function is JavaScript, and there is no node")
	}
	raw, err := os.ReadFile("edge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var edge struct {
		Resources struct {
			ToStage struct {
				Properties struct {
					FunctionCode string `yaml:"FunctionCode"`
				} `yaml:"Properties"`
			} `yaml:"ToStage"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(raw, &edge); err != nil {
		t.Fatal(err)
	}
	code := strings.ReplaceAll(edge.Resources.ToStage.Properties.FunctionCode, "${WebSocketApiStage}", "v1")
	if strings.Contains(code, "${") {
		t.Fatalf("something is not filled in: %s", code)
	}
	for _, path := range []string{"/ws/socket.io/", "/ws/", "/ws/x/../y"} {
		event := `{request: {method: 'GET', uri: '` + path + `', querystring: {EIO: {value: '4'}}, headers: {}}}`
		out, err := exec.Command(node, "-e", code+"\nconsole.log(JSON.stringify(handler("+event+")))").CombinedOutput()
		want := `{"method":"GET","uri":"/v1","querystring":{"EIO":{"value":"4"}},"headers":{}}`
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", path, got, err, want)
		}
	}
}
