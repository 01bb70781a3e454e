package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineReader splits a stream at LF, CRLF and CR. bufio.Scanner would stop at a maximal line that is known beforehand and would
// have to see the byte after a CR before it gives the line away.
type lineReader struct {
	r      *bufio.Reader
	max    int // bytes of one line
	line   []byte
	skipLF bool // the last line ended with CR: a LF that follows belongs to it
}

// next returns a line without its end, valid until the next call. The last line need not end; after it comes io.EOF. Another
// error of the stream takes the place of the line that it cut.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		if _, err := l.r.Peek(1); err != nil {
			if errors.Is(err, io.EOF) && len(l.line) > 0 {
				return l.line, nil
			}
			return nil, err
		}
		chunk, _ := l.r.Peek(l.r.Buffered())
		if l.skipLF {
			l.skipLF = false
			if chunk[0] == '\n' {
				l.discard(1)
				continue
			}
		}
		at := bytes.IndexAny(chunk, "\r\n")
		if at < 0 {
			at = len(chunk)
		}
		if len(l.line)+at > l.max {
			return nil, &FormatError{Problem: fmt.Sprintf("a line is longer than %d bytes", l.max), Excerpt: excerpt(l.line)}
		}
		l.line = append(l.line, chunk[:at]...)
		if at == len(chunk) {
			l.discard(at)
			continue
		}
		l.skipLF = chunk[at] == '\r'
		l.discard(at + 1)
		return l.line, nil
	}
}

// discard skips bytes that are buffered, which cannot fail.
func (l *lineReader) discard(n int) { _, _ = l.r.Discard(n) }
