// Package app puts the parts together: from the environment of a function to the services that its handler calls. It is the one place
// that knows which adapter stands behind which interface; every main.go takes from it what its function needs.
package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/uuid"

	"toolrounds/shared/access"
	"toolrounds/shared/blob"
	"toolrounds/shared/chat"
	"toolrounds/shared/config"
	"toolrounds/shared/dynamo"
	"toolrounds/shared/file"
	"toolrounds/shared/folder"
	"toolrounds/shared/gateway"
	"toolrounds/shared/httpapi"
	"toolrounds/shared/lambdahttp"
	"toolrounds/shared/live"
	"toolrounds/shared/mcp"
	"toolrounds/shared/model"
	"toolrounds/shared/openapi"
	"toolrounds/shared/run"
	"toolrounds/shared/secret"
	"toolrounds/shared/server"
	"toolrounds/shared/states"
	"toolrounds/shared/tool"
	"toolrounds/shared/toolbox"
)

// Version of the application, as /api/version tells it.
const Version = "0.1.0"

// App is everything, wired.
type App struct {
	Config   config.Config
	Accounts *access.Accounts
	Models   *model.Models
	Tools    *tool.Tools
	Runs     *run.Service
	Files    *file.Store
	Folders  *folder.Store
	Servers  *server.Service
	Table    *dynamo.Table
	Live     *live.Service

	greeter live.Later
}

// New wires the application from the environment, and makes the process log as JSON. It makes no request.
func New(ctx context.Context) (*App, error) {
	cfg, err := config.Load(os.Getenv, "TABLE_NAME", "SECRETS_PREFIX")
	if err != nil {
		return nil, err
	}
	slog.SetDefault(config.Logger(cfg.LogLevel))
	aws, err := config.AWS(ctx)
	if err != nil {
		return nil, err
	}
	bucket := blob.New(blob.Client(aws), cfg.Bucket)
	t := dynamo.New(dynamodb.NewFromConfig(aws), cfg.Table, bucket)
	secrets := secret.New(ssm.NewFromConfig(aws), cfg.SecretsPrefix)
	container := toolbox.New(toolbox.Lambda(aws), cfg.ToolboxFunction, cfg.ToolboxTenancy)
	asks := newProvider(cfg.ModelBaseURL, secrets)

	options := access.OptionsFrom(os.Getenv)
	accounts := access.New(t, secrets, secrets, options)
	models := model.New(t, asks, accounts, &model.Options{Task: cfg.TaskModel})
	outside, err := outbound(cfg.OutboundAllow)
	if err != nil {
		return nil, err
	}
	tools := tool.New(t, container, secrets, accounts, &tool.Options{Client: outside.sources})
	servers := &server.Service{
		Table: t, Seal: secrets, Groups: accounts, Sessions: accounts, OpenAPI: openapi.New(outside.openapi),
		MCP: mcp.New(mcp.Options{HTTP: outside.mcp, Call: cfg.ToolTime, Version: Version}), HTTP: outside.terminals,
	}
	folders := &folder.Store{Table: t, Now: time.Now, NewID: newID}
	files := &file.Store{Table: t, Now: time.Now}
	runs := &run.Service{
		Table: t, Chats: &chat.Store{Table: t, Now: time.Now}, Accounts: accounts, Models: models, Tools: tools, Provider: asks,
		Container: &toolbox.Runner{Client: container, Spills: bucket}, Files: files, Servers: servers, Folders: folders,
		Machine: states.New(sfn.NewFromConfig(aws), cfg.StateMachineARN),
		Limits: run.Limits{
			Rounds: cfg.MaxToolRounds, ToolSeconds: int(cfg.ToolTime.Seconds()), ResultChars: cfg.ToolResultChars, Events: historyBudget,
		},
		ModelTools: cfg.ModelTools, Now: time.Now, NewID: newID, ItemID: itemID,
	}
	shows := &live.Service{Table: t, Accounts: accounts, Keys: secrets, Patience: cfg.AnswerTime, Now: time.Now}
	if cfg.WebSocketEndpoint != "" {
		shows.Post = gateway.New(aws, cfg.WebSocketEndpoint)
	}
	runs.Live, runs.Broker, runs.Questions = shows, shows, shows
	return &App{
		Config: cfg, Accounts: accounts, Models: models, Tools: tools, Runs: runs, Files: files, Folders: folders, Servers: servers, Table: t, Live: shows,
		greeter: gateway.NewSelf(aws, os.Getenv("AWS_LAMBDA_FUNCTION_NAME")),
	}, nil
}

// historyBudget is how many of the 25,000 history events of an execution are used before a new one goes on.
const historyBudget = 20_000

// newID is a random id that sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// itemID is the id of an output item.
func itemID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + "_" + hex.EncodeToString(b[:])
}

// Handler is the HTTP surface.
func (a *App) Handler() http.Handler {
	return httpapi.New(httpapi.Deps{
		Accounts: a.Accounts, Models: a.Models, Tools: a.Tools, Files: a.Files, Folders: a.Folders, Live: a.Live, Servers: a.Servers, Version: Version,
		Chats: httpapi.Chats{Store: a.Runs.Chats, Runs: a.Runs, Purge: a.Table, BaseURL: a.baseURL},
	})
}

// Sockets serves the WebSocket API.
func (a *App) Sockets() *live.Sockets {
	return &live.Sockets{Service: a.Live, Chats: a.Runs.Chats, Runs: a.Runs, Later: a.greeter}
}

// baseURL is where callers reach the service: as configured, else as API Gateway says, never as a header claims.
func (a *App) baseURL(r *http.Request) string {
	if a.Config.PublicBaseURL != "" {
		return a.Config.PublicBaseURL
	}
	g, ok := lambdahttp.From(r.Context())
	if !ok {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf("https://%s/%s", g.Domain, g.Stage), "/")
}
