package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

const credentialsPath = "/credentials"

// function is what the emulator knows of the streamed function. It serves the credentials of the function's role in the way of a
// container's credential provider, so that the SDK in the function renews them by itself.
type function struct {
	name, arn, role, endpoint, region string
	memory                            int32
	timeout                           time.Duration
	variables                         map[string]string
	sts                               *sts.Client
	// token keeps other programs of this machine from the role.
	token string
}

func loadFunction(ctx context.Context, endpoint, name string) (*function, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithBaseEndpoint(endpoint))
	if err != nil {
		return nil, err
	}
	found, err := lambda.NewFromConfig(cfg).GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return nil, fmt.Errorf("read configuration of %s: %w", name, err)
	}
	f := &function{
		name:     name,
		arn:      aws.ToString(found.FunctionArn),
		role:     aws.ToString(found.Role),
		endpoint: endpoint,
		region:   cfg.Region,
		memory:   aws.ToInt32(found.MemorySize),
		timeout:  time.Duration(aws.ToInt32(found.Timeout)) * time.Second,
		sts:      sts.NewFromConfig(cfg),
		token:    rand.Text(),
	}
	if found.Environment != nil {
		f.variables = found.Environment.Variables
	}
	return f, nil
}

// environment is what Lambda gives to the process of a function, and the endpoint of the emulator.
func (f *function) environment(folder, runtimeAPI string, concurrency int) []string {
	env := map[string]string{}
	// The front door's own environment is an allow-list already; its credentials are the emulator's root, though.
	for _, name := range []string{"PATH", "LANG", "TZ", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	for name, value := range f.variables {
		env[name] = value
	}
	for name, value := range map[string]string{
		"AWS_REGION":                         f.region,
		"AWS_DEFAULT_REGION":                 f.region,
		"AWS_ENDPOINT_URL":                   f.endpoint,
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://" + runtimeAPI + credentialsPath,
		"AWS_CONTAINER_AUTHORIZATION_TOKEN":  f.token,
		"AWS_LAMBDA_FUNCTION_NAME":           f.name,
		"AWS_LAMBDA_FUNCTION_VERSION":        "$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE":    strconv.Itoa(int(f.memory)),
		"AWS_LAMBDA_RUNTIME_API":             runtimeAPI,
		"AWS_LAMBDA_MAX_CONCURRENCY":         strconv.Itoa(concurrency),
		"LAMBDA_TASK_ROOT":                   folder,
		"_HANDLER":                           "bootstrap",
	} {
		env[name] = value
	}
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// ServeHTTP hands out a session of the function's role.
func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != f.token {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	session := "frontdoor"
	got, err := f.sts.AssumeRole(r.Context(), &sts.AssumeRoleInput{RoleArn: &f.role, RoleSessionName: &session})
	if err != nil {
		log.Printf("assume %s: %v", f.role, err)
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"AccessKeyId":     got.Credentials.AccessKeyId,
		"SecretAccessKey": got.Credentials.SecretAccessKey,
		"Token":           got.Credentials.SessionToken,
		"Expiration":      got.Credentials.Expiration,
	})
}
