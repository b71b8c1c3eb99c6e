package backends

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// read receives the child's messages until it ends.
func (c *child) read() {
	r := bufio.NewReaderSize(c.process.stdout, 64<<10)
	var err error
	for err == nil {
		var line []byte
		if line, err = readLine(r, c.claims.arriving); err == nil {
			err = c.receive(line)
		}
		c.claims.arrived()
		c.claims.passing.free()
	}
	c.finish(err)
}

// readLine reads a line; arriving is called with its size as it grows.
func readLine(r *bufio.Reader, arriving func(size int64) error) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err := arriving(int64(len(line))); err != nil {
			return nil, err
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}

// finish ends the session after reading ended with err. A child that writes too much is
// killed: it would block on the rest.
func (c *child) finish(err error) {
	tooMuch := errors.Is(err, ErrTooLarge) || errors.Is(err, errFlood)
	if tooMuch {
		c.process.kill()
	}
	select {
	case <-c.process.exited:
	case <-time.After(time.Second): // stdout was closed, or is not to be read on
	}
	c.mu.Lock()
	switch {
	case tooMuch && c.awaited.calls() > 1: // it is not known which of the calls it answers
		c.err = fmt.Errorf("reading from the process: %v", err)
	case tooMuch || c.err == nil:
		c.err = fmt.Errorf("reading from the process: %w", err)
	}
	c.mu.Unlock()
	close(c.done)
}

// receive takes one message. Lines that are no JSON-RPC are ignored: careless
// servers log to stdout.
func (c *child) receive(line []byte) error {
	line = utf8Text(line)
	head, isMessage, err := c.flow.admit(line)
	switch {
	case err != nil || !isMessage:
		return err
	case head.isAnswer():
		return c.receiveAnswer(head, line)
	case len(head.ID) == 0:
		c.receiveNotification(line)
	default:
		c.receiveRequest(line)
	}
	return nil
}

// receiveAnswer hands an answer on. One for which there is no memory, or that is none of
// JSON-RPC, ends its own request alone; one that is not waited for is not decoded.
func (c *child) receiveAnswer(head messageHead, line []byte) error {
	var answer transport.JSONRPCResponse
	if !c.awaited.expects(head.id()) {
		if _, asked := c.awaited.take(head.id()); asked {
			return nil
		}
		return c.flow.take(len(line) + costOfMessage)
	}
	holder, _ := c.claims.holderOf(head)
	refused := c.claims.take(line, holder)
	if refused == nil {
		if err := json.Unmarshal(line, &answer); err != nil {
			refused = fmt.Errorf("decoding the answer: %w", err)
		}
	}
	if ch, _ := c.awaited.take(head.id()); ch != nil { // else it was given up meanwhile
		ch <- arrival{&answer, refused}
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

var _ io.Writer = (*lineWriter)(nil)
