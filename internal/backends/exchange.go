package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// ErrTooLarge is in the chain of errors of answers over Config.MaxResultBytes.
var ErrTooLarge = errors.New("the answer is over the limit maxResultBytes")

func tooLarge(limit int64) error { return fmt.Errorf("%w of %d bytes", ErrTooLarge, limit) }

// An exchange records one request to a backend and its answer. It travels in the request's
// context through mcp-go, which itself reports neither whether a request was sent nor the
// exact answer. The transport fills it in: the meter how far a request of HTTP got, a child
// whether its line was written, and capture the answer, or why it is none.
type exchange struct {
	caller   context.Context   // of the call, without what mcp-go derives from it
	expected bool              // a call waits for the answer
	session  bool              // the request belongs to a session, which may be over
	headers  Headers           // credentials of the call; nil = those of the session
	traced   map[string]string // headers that name the trace of the call; nil = none
	held     *holding          // the answer's part of the budget; nil = not kept

	mu      sync.Mutex
	reached bool                       // bytes of the request may have got to the backend
	conn    *countedConn               // HTTP: what the request is written to
	before  int64                      // HTTP: writes to conn before this request
	status  int                        // HTTP: status of the answer, 0 = none
	after   time.Duration              // HTTP: for how long it asks not to be called, 0 = it does not
	answer  *transport.JSONRPCResponse // what came back
	named   bool                       // it has the id of the request, which so was read to the end
	broke   error                      // why reading the answer ended
}

type exchangeKey struct{}

// newExchange returns ctx with a fresh exchange in it, whose holding is to be ended.
func newExchange(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{caller: ctx, expected: true, held: &holding{}}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// exchangeOf returns the exchange of ctx; an unused one if there is none, as in the
// handshake.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{caller: ctx}
}

func (x *exchange) set(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

// outcome is that of a request without a result.
func (x *exchange) outcome() Outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !x.reached:
		return NotSent
	case x.status >= 500, x.status == http.StatusRequestTimeout: // with 408 some servers give up a handler that is at work
		return Unknown
	case x.status == http.StatusTooEarly, x.status == http.StatusTooManyRequests: // with any text
		return NotSent
	case x.answer != nil && x.answer.Error != nil:
		return Refused
	case x.status == http.StatusNotFound && x.session:
		return NotSent
	case x.status >= 300:
		return Refused
	}
	return Unknown
}

// result is the raw result of the exchange, or its error. err is that of mcp-go, which may
// fail to decode a valid result.
func (x *exchange) result(err error) (json.RawMessage, error) {
	x.mu.Lock()
	arrived := x.answer != nil && x.answer.Error == nil && len(x.answer.Result) > 0 && x.status < 300
	x.mu.Unlock()
	if arrived {
		return x.answer.Result, nil
	}
	if err == nil {
		err = errors.New("the answer has neither result nor error")
	}
	return nil, x.cause(err)
}

// away reports whether the HTTP status means that the backend takes no calls now, and
// the pause that it asks for.
func (x *exchange) away() (bool, time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch x.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, x.after
	}
	return false, 0
}

// maxRetryAfter bounds the pause; no call waits for as long.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter is the pause that a response of 429 or 503 asks for; 0 = none.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// unauthorized reports whether the backend refused the credentials, and so
// did not execute the request.
func (x *exchange) unauthorized() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status == http.StatusUnauthorized
}

// cause is the error to show for a request that failed in mcp-go with err.
func (x *exchange) cause(err error) error {
	err = shortened(plain(err))
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.answer != nil && x.answer.Error != nil:
		return &RPCError{Code: x.answer.Error.Code, Message: clipped(x.answer.Error.Message, maxErrorText), Data: x.answer.Error.Data}
	case x.broke != nil && x.status < 300:
		return fmt.Errorf("reading the answer: %w", x.broke)
	case x.status >= 300:
		return fmt.Errorf("HTTP status %d %s: %w", x.status, http.StatusText(x.status), err)
	case x.status > 0:
		return fmt.Errorf("the answer ended before the result: %w", err)
	case x.conn != nil && x.reached:
		return fmt.Errorf("the connection ended before an answer came: %w", err)
	}
	return err
}

// A TurnedDownError is that of a connection by whose HTTP status the backend takes no calls
// now: 429, 502, 503 or 504.
type TurnedDownError struct {
	status int
	after  time.Duration // the pause that it asks for; 0 = none
}

func (e *TurnedDownError) Error() string {
	return fmt.Sprintf("HTTP status %d %s", e.status, http.StatusText(e.status))
}

// A CredentialError is that of a connection whose credentials the backend refuses: HTTP
// status 401 or 403.
type CredentialError struct{ status int }

func (e *CredentialError) Error() string {
	return fmt.Sprintf("HTTP status %d %s", e.status, http.StatusText(e.status))
}

// refusal is the error of a handshake. mcp-go takes every status of 400 to 499 for that of
// a server that speaks SSE, which 404 and 405 may be.
func (x *exchange) refusal(err error) error {
	if away, after := x.away(); away {
		return &TurnedDownError{x.status, after}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.status == http.StatusUnauthorized, x.status == http.StatusForbidden:
		return &CredentialError{x.status}
	case !errors.Is(err, transport.ErrLegacySSEServer) || x.status == 0:
		return err
	case x.status == http.StatusNotFound, x.status == http.StatusMethodNotAllowed:
		return fmt.Errorf("HTTP status %d %s: %w", x.status, http.StatusText(x.status), err)
	}
	return fmt.Errorf("HTTP status %d %s", x.status, http.StatusText(x.status))
}

// shortened cuts the text of an error, which may contain all that a server sent.
func shortened(err error) error {
	if err == nil || len(err.Error()) <= maxErrorText {
		return err
	}
	return &shortError{clipped(err.Error(), maxErrorText), err}
}

type shortError struct {
	text string
	err  error
}

func (e *shortError) Error() string { return e.text }
func (e *shortError) Unwrap() error { return e.err }

// plain removes the wrapping of mcp-go and net/http from an error: the backend and the call
// are named already.
func plain(err error) error {
	var onWire *url.Error
	if errors.As(err, &onWire) {
		return onWire.Err
	}
	var wrapped *transport.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
