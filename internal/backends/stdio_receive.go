package backends

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// read hands on what the child writes until it ends.
func (c *child) read() {
	r := bufio.NewReaderSize(c.stdout, 64<<10)
	var err error
	for err == nil {
		var line []byte
		if line, err = readLine(r, c.cfg.maxResultBytes()); err == nil {
			err = c.receive(line)
		}
	}
	c.finish(err)
}

// readLine reads a line of at most limit bytes.
func readLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if int64(len(line)) > limit {
			return nil, tooLarge(limit)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}

// finish ends the session after reading ended with err. A child that writes too
// much is killed: it would wait for the rest to be read.
func (c *child) finish(err error) {
	tooMuch := errors.Is(err, ErrTooLarge) || errors.Is(err, ErrFlood)
	if tooMuch {
		signalGroup(c.cmd, os.Kill)
	}
	select {
	case <-c.exited:
	case <-time.After(time.Second): // stdout was closed, or is not to be read on
	}
	c.mu.Lock()
	if c.err == nil || tooMuch {
		c.err = fmt.Errorf("reading from the process: %w", err)
	}
	c.mu.Unlock()
	close(c.done)
}

// receive takes one message. Lines that are no JSON-RPC are ignored: careless
// servers log to stdout.
func (c *child) receive(line []byte) error {
	head, isMessage, err := c.flow.admit(line)
	switch {
	case err != nil || !isMessage:
		return err
	case head.isAnswer():
		return c.receiveAnswer(line)
	case len(head.ID) == 0:
		c.receiveNotification(line)
	default:
		c.receiveRequest(line)
	}
	return nil
}

func (c *child) receiveAnswer(line []byte) error {
	var answer transport.JSONRPCResponse
	if json.Unmarshal(line, &answer) != nil {
		return c.flow.take(len(line) + costOfMessage)
	}
	ch, asked := c.take(answer.ID.String())
	switch {
	case ch != nil:
		ch <- &answer
	case !asked:
		return c.flow.take(len(line) + costOfMessage)
	}
	return nil
}

func (c *child) receiveNotification(line []byte) {
	var n mcp.JSONRPCNotification
	c.mu.Lock()
	notify := c.notify
	c.mu.Unlock()
	if notify != nil && json.Unmarshal(line, &n) == nil {
		notify(n)
	}
}

func (c *child) receiveRequest(line []byte) {
	var req transport.JSONRPCRequest
	c.mu.Lock()
	handle := c.requests
	c.mu.Unlock()
	if handle == nil || json.Unmarshal(line, &req) != nil {
		return
	}
	c.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		defer cancel()
		resp, err := handle(ctx, req)
		if err != nil {
			resp = transport.NewJSONRPCErrorResponse(req.ID, mcp.METHOD_NOT_FOUND, err.Error(), nil)
		}
		_, _ = c.write(ctx, resp)
	})
}

// A lineWriter hands on whole lines, cut at 4 KB.
type lineWriter struct {
	buf  []byte
	line func(string)
	pace func(n int) // waits until n bytes may have come
}

const maxStderrLine = 4 << 10

func (w *lineWriter) Write(p []byte) (int, error) {
	w.pace(len(p))
	w.buf = append(w.buf, p...)
	for {
		i := bytes.IndexByte(w.buf, '\n')
		if i < 0 && len(w.buf) < maxStderrLine {
			return len(p), nil
		}
		if i < 0 {
			i = maxStderrLine - 1
		}
		w.line(strings.TrimRight(string(w.buf[:i]), "\r"))
		w.buf = w.buf[min(i+1, len(w.buf)):]
	}
}

var _ io.Writer = (*lineWriter)(nil)

// A stderrTail keeps the last line that says something, which often is why a
// process ended.
type stderrTail struct {
	mu   sync.Mutex
	line string
}

func (t *stderrTail) add(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = line
}

func (t *stderrTail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.line
}
