package backends

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// An eventStream hands a stream of server-sent events on, event by event and each
// in a normal form, after it has looked at what they hold: mcp-go decodes all of
// every event, puts its lines together at a cost that grows with their square,
// and reads for as long as something comes.
type eventStream struct {
	body   io.ReadCloser
	lines  *bufio.Reader
	paced  *pacedAnswer // what body reads
	claims *claims
	flow   *flow
	answer bool        // the stream ends with an answer, as that of a POST does
	failed func(error) // called with why the stream is given up

	out []byte // of the event that is handed on
	err error  // what follows it
}

func newEventStream(body io.ReadCloser, paced *pacedAnswer, c *claims, f *flow, answer bool, failed func(error)) *eventStream {
	return &eventStream{body: body, lines: bufio.NewReaderSize(body, 32<<10), paced: paced, claims: c, flow: f, answer: answer, failed: failed}
}

func (s *eventStream) Close() error { return s.body.Close() }

func (s *eventStream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.claims.passing.free() // of the event before, which has been decoded
		if s.out, s.err = s.next(); s.err != nil && s.err != io.EOF {
			s.failed(s.err)
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// An event as it is read.
type event struct {
	name    string
	fields  []byte // all lines but data
	data    []byte
	hasData bool
	size    int64 // of the lines that it is made of, as they came
	cost    int   // of its lines, as far as it was not taken yet
}

// next reads an event that is handed on, in its normal form. The error is what
// follows it, or why there is none.
func (s *eventStream) next() ([]byte, error) {
	defer s.claims.arrived()
	for {
		s.claims.arrived()
		s.paced.begins(s.lines.Buffered())
		e, err := s.read()
		if err != nil && !(errors.Is(err, io.EOF) && e.hasData) {
			return nil, err
		}
		out, ends, taken := s.take(e)
		if taken != nil {
			return nil, taken
		}
		if ends {
			err = io.EOF
		}
		if out != nil || err != nil {
			return out, err
		}
	}
}

// read reads the lines of one event.
func (s *eventStream) read() (e event, err error) {
	for {
		line, err := s.line(e.size)
		if err != nil && len(line) == 0 {
			return e, err
		}
		if len(line) == 0 && err == nil {
			e.cost += costOfLine
			return e, nil
		}
		e.size += int64(len(line)) + 1
		e.cost += len(line) + costOfLine
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if e.hasData {
				e.data = append(e.data, ' ') // between two tokens of JSON, where a line may end
			}
			e.data, e.hasData = append(e.data, value...), true
		case "event", "id", "retry":
			if string(name) == "event" {
				e.name = strings.TrimSpace(string(value))
			}
			e.fields = append(append(e.fields, line...), '\n')
		default: // a comment, or an unknown field, which an event may have without end
			if err := s.flow.take(e.cost); err != nil {
				return e, err
			}
			e.size, e.cost = e.size-int64(len(line))-1, 0
		}
		if err != nil {
			return e, err
		}
	}
}

// line reads a line without its end, of an event that has some bytes already.
func (s *eventStream) line(before int64) ([]byte, error) {
	var line []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		if line == nil && err == nil {
			line = part // valid until the next read
		} else {
			line = append(line, part...)
		}
		if err := s.claims.arriving(before + int64(len(line))); err != nil {
			return nil, err
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// take looks at an event, and gives its normal form; nil = it holds nothing. Ends
// reports that nothing follows it.
func (s *eventStream) take(e event) (out []byte, ends bool, err error) {
	var head messageHead
	answers := false
	if e.hasData && e.name != "endpoint" {
		e.data = utf8Text(e.data)
		if head, e.hasData, err = s.flow.admit(e.data); err != nil {
			return nil, false, err
		}
		answers = e.hasData && head.isAnswer()
	}
	holder, expected := s.claims.holderOf(head)
	if !answers || !s.answer && !expected {
		if err := s.flow.take(e.cost); err != nil {
			return nil, false, err
		}
	}
	if !e.hasData && len(e.fields) == 0 || answers && !s.answer && !expected {
		return nil, false, nil
	}
	out = e.fields
	if e.hasData {
		out = append(append(append(out, "data: "...), e.data...), '\n')
	}
	out = append(out, '\n')
	err = s.claims.take(out, holder)
	if err != nil && answers && !s.answer && s.claims.ctx.Err() == nil { // the other answers on the stream are not to blame
		holder.refuse(err)
		return fmt.Appendf(nil, `data: {"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"not read"}}`+"\n\n", head.ID), false, nil
	}
	return out, answers && s.answer, err
}
