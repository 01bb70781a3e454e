package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// errDone ends the reading of frames at [DONE]. It never leaves this file's callers.
type errDone struct{}

func (errDone) Error() string { return "done" }

// readFrames hands each JSON frame of an answer's body to use, with the name of the event that carried it ("" for most), until
// the body ends, [DONE] comes (done is true), or something fails. An error of use is returned as it is.
//
// The reader is our own because the well-kept SSE decoders follow the standard, and this has to bear what providers send: data
// lines without the blank line that ends a frame, a last frame without any line end, bare JSON between the lines, and a body that
// is not SSE at all but one JSON object, one per line, or a web page. A decoder by the standard drops all of these silently.
func readFrames(body io.Reader, use func(event string, data []byte) error) (done bool, err error) {
	f := &frameReader{r: bufio.NewReaderSize(body, 32<<10), use: use}
	err = f.run()
	if errors.Is(err, errDone{}) {
		return true, nil
	}
	if err == nil && !f.used {
		err = f.nothing()
	}
	return false, err
}

type frameReader struct {
	r    *bufio.Reader
	use  func(event string, data []byte) error
	used bool // at least one frame, or [DONE], was there

	event string // the event name of the frame that is being read
	data  []byte // data lines so far that are not yet one JSON value
	bare  []byte // lines that began with a brace and are not yet one JSON value
	junk  []byte // how lines begin that belong to nothing, for the error
}

// run looks at the first character to see what the body is.
func (f *frameReader) run() error {
	if bom, err := f.r.Peek(3); err == nil && bytes.Equal(bom, []byte("\xef\xbb\xbf")) {
		_, _ = f.r.Discard(3)
	}
	for {
		c, err := f.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			continue
		}
		if err := f.r.UnreadByte(); err != nil {
			return err
		}
		switch c {
		case '{', '[':
			return f.values()
		case '<':
			page, err := io.ReadAll(io.LimitReader(f.r, 16<<10))
			if err != nil {
				return err
			}
			return &FormatError{Problem: "it is a web page", Excerpt: excerpt(page)}
		}
		return f.lines(f.r)
	}
}

// values reads JSON values one after another: a completion instead of a stream, a list of frames, or one frame a line. What
// follows them, or looked like JSON and is not, is read as lines.
func (f *frameReader) values() error {
	d := json.NewDecoder(&bounded{r: f.r, left: maxFrame})
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			return f.lines(io.MultiReader(d.Buffered(), f.r))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f.emit(raw); err != nil {
			return err
		}
	}
}

// lines reads server-sent events.
func (f *frameReader) lines(r io.Reader) error {
	b, ok := r.(*bufio.Reader)
	if !ok {
		b = bufio.NewReaderSize(r, 32<<10)
	}
	l := &lineReader{r: b, max: maxFrame}
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			return f.end(true)
		}
		if err != nil {
			return err
		}
		if err := f.one(line); err != nil {
			return err
		}
	}
}

// one takes one line.
func (f *frameReader) one(line []byte) error {
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return f.end(false)
	}
	if line[0] == ':' {
		return nil // a comment: a heartbeat
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		f.bare = f.bare[:0]
		return f.dataLine(bytes.TrimSpace(value))
	case "event":
		f.event = string(bytes.TrimSpace(value))
	case "id", "retry":
	default:
		return f.bareLine(line)
	}
	return nil
}

// dataLine takes the value of a data line. A value that is complete is used at once, without waiting for the blank line: it is
// there sooner, and some servers never send it.
func (f *frameReader) dataLine(value []byte) error {
	for bytes.HasPrefix(value, []byte("data:")) { // a proxy that wraps what is wrapped already
		value = bytes.TrimSpace(value[len("data:"):])
	}
	if len(f.data) == 0 {
		if bytes.Equal(value, []byte("[DONE]")) {
			f.used = true
			return errDone{}
		}
		if looksWhole(value) && json.Valid(value) {
			return f.emit(value)
		}
	}
	if len(f.data)+len(value) > maxFrame {
		return &FormatError{Problem: "a frame is too large", Excerpt: excerpt(f.data)}
	}
	if len(f.data) > 0 {
		f.data = append(f.data, '\n')
	}
	f.data = append(f.data, value...)
	if looksWhole(value) && looksWhole(f.data) && json.Valid(f.data) {
		err := f.emit(f.data)
		f.data = f.data[:0]
		return err
	}
	return nil
}

// looksWhole spares most parts of a frame a look at all of it.
func looksWhole(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	last := b[len(b)-1]
	return last == '}' || last == ']'
}

// bareLine takes a line that is no field: JSON that lost its "data:", or noise.
func (f *frameReader) bareLine(line []byte) error {
	if len(f.bare) == 0 && line[0] != '{' {
		f.noise(line)
		return nil
	}
	if len(f.bare)+len(line) > maxErrors {
		f.noise(f.bare)
		f.bare = f.bare[:0]
		return nil
	}
	f.bare = append(append(f.bare, line...), '\n')
	if !looksWhole(bytes.TrimSpace(line)) || !json.Valid(f.bare) {
		return nil
	}
	err := f.emit(f.bare)
	f.bare = f.bare[:0]
	return err
}

// end ends a frame, at a blank line or at the end of the stream.
func (f *frameReader) end(eof bool) error {
	defer func() { f.event, f.data, f.bare = "", f.data[:0], f.bare[:0] }()
	f.noise(f.bare)
	data := bytes.TrimSpace(f.data)
	if len(data) == 0 {
		return nil
	}
	if f.event == "error" {
		text, err := json.Marshal(string(data))
		if err != nil {
			return err
		}
		return f.emit(text)
	}
	if data[0] != '{' && data[0] != '[' {
		f.noise(data) // such as "data: ping"
		return nil
	}
	if eof {
		return io.ErrUnexpectedEOF
	}
	return &FormatError{Problem: "a frame is not JSON", Excerpt: excerpt(data)}
}

func (f *frameReader) emit(data []byte) error {
	f.used = true
	return f.use(f.event, data)
}

func (f *frameReader) noise(line []byte) {
	if len(f.junk) == 0 {
		f.junk = append(f.junk, line[:min(len(line), 1200)]...)
	}
}

// nothing is the error of a body without a frame.
func (f *frameReader) nothing() error {
	if len(f.junk) > 0 {
		return &FormatError{Problem: "it is neither JSON nor a stream of events", Excerpt: excerpt(f.junk)}
	}
	return &FormatError{Problem: "it is empty"}
}

// bounded fails, instead of ending, after so many bytes.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &FormatError{Problem: "it is too large"}
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
