package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"toolrounds/shared/fault"
)

const (
	textNotFetched  = "Failed to fetch the tool"
	textFetchFailed = "[ERROR: Error fetching tool]"
	textNoSource    = "No data received from the URL"
)

// maxSource is the largest source, in bytes, that is fetched by URL: as much as a request body may hold.
const maxSource = 4_500_000

// StatusError is a failure whose HTTP status no fault.Code has: above all the answer of another server that was not 200.
type StatusError struct {
	Status int
	Detail string
	Cause  error // may be nil
}

func (e *StatusError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: status %d: %v", e.Detail, e.Status, e.Cause)
	}
	return fmt.Sprintf("%s: status %d", e.Detail, e.Status)
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Cause }

func unreachable(cause error) error {
	return &StatusError{http.StatusInternalServerError, textFetchFailed, cause}
}

var github = regexp.MustCompile(`^/([^/]+)/([^/]+)/(blob|tree)/([^/]+)/(.+)$`)

// FetchURL gets a source from an http or https URL and suggests a name for it (spec/http.md C1). A GitHub page of a file or folder
// becomes the raw file, of a folder its main.py. The URL itself is judged by CheckURL. Errors: *StatusError with the other server's
// status when that is not 200 and with 500 when it cannot be reached, fault.Invalid for nothing, fault.TooLarge.
func (t *Tools) FetchURL(ctx context.Context, u *url.URL) (name, source string, err error) {
	raw := *u
	if parts := github.FindStringSubmatch(u.Path); u.Host == "github.com" && parts != nil {
		file := parts[5]
		if parts[3] == "tree" {
			file = strings.TrimRight(file, "/") + "/main.py"
		}
		raw = url.URL{Scheme: "https", Host: "raw.githubusercontent.com", Path: path.Join("/", parts[1], parts[2], "refs/heads", parts[4], file)}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, raw.String(), nil)
	if err != nil {
		return "", "", unreachable(err)
	}
	response, err := t.opts.Client.Do(request)
	if err != nil {
		return "", "", unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", "", &StatusError{Status: response.StatusCode, Detail: textNotFetched}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxSource+1))
	switch {
	case err != nil:
		return "", "", unreachable(err)
	case len(body) > maxSource:
		return "", "", fault.New(fault.TooLarge, fmt.Sprintf("The source is larger than %d bytes", maxSource))
	case len(body) == 0:
		return "", "", fault.New(fault.Invalid, textNoSource)
	}
	return nameOf(&raw), string(body), nil
}

// nameOf suggests a name: the file's, or the folder's where the file's says nothing.
func nameOf(u *url.URL) string {
	parts := strings.Split(strings.Trim(u.Host+u.Path, "/"), "/")
	last := parts[len(parts)-1]
	name, isPython := strings.CutSuffix(last, ".py")
	if isPython && name != "main" && name != "index" && name != "__init__" || len(parts) == 1 {
		return name
	}
	return parts[len(parts)-2]
}

// CheckURL reads a URL from which a source may be fetched. What is wrong with it comes as a type and message of the kind that FastAPI
// gives: url_parsing, url_scheme.
func CheckURL(text string) (u *url.URL, kind string, err error) {
	if text == "" {
		return nil, "url_parsing", errors.New("input is empty")
	}
	u, err = url.Parse(text)
	switch {
	case err != nil || u.Scheme == "":
		return nil, "url_parsing", errors.New("relative URL without a base")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "url_scheme", errors.New("'http' or 'https'")
	case u.Hostname() == "":
		return nil, "url_parsing", errors.New("empty host")
	}
	return u, "", nil
}
