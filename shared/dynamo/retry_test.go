package dynamo_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"toolrounds/shared/dynamo"
	"toolrounds/shared/table"
)

// service answers requests to DynamoDB from a list, and keeps what was asked.
type service struct {
	mu      sync.Mutex
	answers []string // bodies; one with a __type is a 400; the last is given again and again
	asked   []map[string]any
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var in map[string]any
	json.Unmarshal(body, &in)
	s.asked = append(s.asked, in)
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if strings.Contains(answer, "__type") {
		w.WriteHeader(http.StatusBadRequest)
	}
	io.WriteString(w, answer)
}

func served(t *testing.T, answers ...string) (*dynamo.Table, *service) {
	s := &service{answers: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	return dynamo.New(client, "t", new(objects)), s
}

const ns = `"__type":"com.amazonaws.dynamodb.v20120810#`

func cancelledBy(codes ...string) string {
	var reasons []string
	for _, c := range codes {
		reasons = append(reasons, `{"Code":"`+c+`","Message":"because"}`)
	}
	return `{` + ns + `TransactionCanceledException","Message":"m","CancellationReasons":[` + strings.Join(reasons, ",") + `]}`
}

func TestTransactRepeats(t *testing.T) {
	a, b := table.Key{PK: "C#a", SK: "A"}, table.Key{PK: "C#a", SK: "B"}
	ops := []table.Op{table.Put(table.Item{Key: a}, table.New()), table.Put(table.Item{Key: b}, table.New())}
	for _, c := range []struct {
		name     string
		answers  []string
		requests int
		failed   []table.Key
		refused  bool
	}{
		{"conflict passes", []string{cancelledBy("None", "TransactionConflict"), cancelledBy("ThrottlingError", "None"), `{}`}, 3, nil, false},
		{"in progress passes", []string{`{` + ns + `TransactionInProgressException"}`, `{}`}, 2, nil, false},
		{"condition", []string{cancelledBy("None", "ConditionalCheckFailed")}, 1, []table.Key{b}, false},
		{"condition beside a conflict", []string{cancelledBy("ConditionalCheckFailed", "TransactionConflict")}, 1, []table.Key{a}, false},
		{"conflict, then condition", []string{cancelledBy("TransactionConflict", "None"), cancelledBy("ConditionalCheckFailed", "ConditionalCheckFailed")}, 2, []table.Key{a, b}, false},
		{"refusal", []string{cancelledBy("ValidationError", "TransactionConflict")}, 1, nil, true},
		{"access", []string{`{` + ns + `AccessDeniedException"}`}, 1, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, service := served(t, c.answers...)
			err := s.Transact(t.Context(), ops...)
			if len(service.asked) != c.requests {
				t.Errorf("%d requests, want %d", len(service.asked), c.requests)
			}
			for _, in := range service.asked {
				if in["ClientRequestToken"] == nil {
					t.Error("a request without a token")
				}
			}
			var condition *table.ConditionError
			switch {
			case c.failed != nil:
				if !errors.As(err, &condition) || len(condition.Failed) != len(c.failed) || !table.FailedOn(err, c.failed[0]) {
					t.Errorf("error %v, want failed conditions on %v", err, c.failed)
				}
			case c.refused != (err != nil) || errors.Is(err, table.ErrCondition):
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestApplyRepeats(t *testing.T) {
	s, service := served(t, `{`+ns+`TransactionConflictException"}`, `{`+ns+`TransactionConflictException"}`, `{"Attributes":{"pk":{"S":"a"},"sk":{"S":"b"},"n":{"N":"3"}}}`)
	item, err := s.Apply(t.Context(), table.Update(table.Key{PK: "a", SK: "b"}, table.Change{Add: map[string]int64{"n": 1}}))
	if err != nil || item.Int("n") != 3 || len(service.asked) != 3 {
		t.Errorf("%v, %v after %d requests", item, err, len(service.asked))
	}
}

// TestPatience has a conflict that does not pass: the error is no failed condition.
func TestPatience(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three seconds")
	}
	t.Parallel()
	s, service := served(t, cancelledBy("TransactionConflict"))
	err := s.Transact(t.Context(), table.Put(table.Item{Key: table.Key{PK: "a", SK: "b"}}))
	if err == nil || errors.Is(err, table.ErrCondition) || len(service.asked) < 5 {
		t.Errorf("%v after %d requests", err, len(service.asked))
	}
}

func TestUnprocessed(t *testing.T) {
	s, service := served(t,
		`{"Responses":{"t":[{"pk":{"S":"a"},"sk":{"S":"1"}}]},"UnprocessedKeys":{"t":{"Keys":[{"pk":{"S":"a"},"sk":{"S":"2"}}]}}}`,
		`{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[{"pk":{"S":"a"},"sk":{"S":"2"}}]}}}`,
		`{"Responses":{"t":[{"pk":{"S":"a"},"sk":{"S":"2"}}]}}`)
	found, err := s.Get(t.Context(), table.Key{PK: "a", SK: "1"}, table.Key{PK: "a", SK: "2"})
	if err != nil || len(found) != 2 || len(service.asked) != 3 {
		t.Errorf("get: %v, %v after %d requests", found, err, len(service.asked))
	}
	s, service = served(t,
		`{"UnprocessedItems":{"t":[{"DeleteRequest":{"Key":{"pk":{"S":"a"},"sk":{"S":"2"}}}}]}}`, `{}`)
	err = s.Batch(t.Context(), table.Delete(table.Key{PK: "a", SK: "1"}), table.Delete(table.Key{PK: "a", SK: "2"}))
	if err != nil || len(service.asked) != 2 {
		t.Errorf("batch: %v after %d requests", err, len(service.asked))
	}
}
