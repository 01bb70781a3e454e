package main

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A process is known to be dead before its connections are: what comes then is not given to one of its polls, where nobody would ever
// answer it.
func TestPollsOfADeadProcessGetNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("arn")
		poll := func() (*httptest.ResponseRecorder, chan struct{}) {
			answer, done := httptest.NewRecorder(), make(chan struct{})
			go func() {
				defer close(done)
				q.ServeHTTP(answer, httptest.NewRequest("GET", "/2018-06-01/runtime/invocation/next", nil))
			}()
			synctest.Wait()
			return answer, done
		}
		dead, ended := poll()
		q.fail()
		q.invoke("id", []byte("event"), time.Minute)
		<-ended
		if got := dead.Body.String(); got != "" {
			t.Errorf("the dead process was given %q", got)
		}
		next, ended := poll()
		<-ended
		if got := next.Body.String(); got != "event" {
			t.Errorf("the next process was given %q", got)
		}
	})
}
