package backends

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// Limits of what a server may send besides answers, such as notifications, its own requests
// and invalid messages, in bytes: at once, per second, and in one message. Messages cost
// more than their bytes, so that many small ones count.
const (
	chatterAtOnce = 16 << 20
	chatterRate   = 1 << 20
	maxChatter    = 256 << 10

	costOfLine    = 64
	costOfMessage = 512
	costOfRequest = 16 << 10 // it is answered
	costOfStream  = 16 << 10 // that is opened
)

// errFlood is in the chain of errors of sessions whose server sends too much unrequested
// data.
var errFlood = errors.New("the server floods the connection")

// A flow is what a server may still send besides answers.
type flow struct {
	mu   sync.Mutex
	left float64 // bytes
	at   time.Time
}

func newFlow() *flow { return &flow{left: chatterAtOnce, at: time.Now()} }

// take takes bytes; the error is errFlood if there are not as many.
func (f *flow) take(n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refill()
	f.left -= float64(n)
	if f.left >= 0 {
		return nil
	}
	f.left = math.Max(f.left, -chatterAtOnce)
	return fmt.Errorf("%w with what is no answer: more than %d bytes at once and %d a second", errFlood, chatterAtOnce, chatterRate)
}

// wait takes bytes, and gives how long to wait before reading more.
func (f *flow) wait(n int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refill()
	f.left -= float64(n)
	if f.left >= 0 {
		return 0
	}
	return time.Duration(-f.left / chatterRate * float64(time.Second))
}

func (f *flow) refill() {
	now := time.Now()
	f.left = math.Min(f.left+now.Sub(f.at).Seconds()*chatterRate, chatterAtOnce)
	f.at = now
}

// A messageHead distinguishes kinds of messages.
type messageHead struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Error  json.RawMessage `json:"error"`
}

// headOf reads the head of a message; ok is false for an invalid one.
func headOf(message []byte) (head messageHead, ok bool) {
	ok = json.Unmarshal(message, &head) == nil
	return head, ok && (head.Method != nil || head.isAnswer())
}

// isAnswer reports whether the message is the answer to a request.
func (h messageHead) isAnswer() bool {
	return h.Method == nil && len(h.ID) > 0 && string(h.ID) != "null"
}

// id is the ID as requests have it.
func (h messageHead) id() string {
	var id mcp.RequestId
	_ = json.Unmarshal(h.ID, &id) // an invalid one belongs to no request
	return id.String()
}

// utf8Text is a message as valid UTF-8, which JSON must be: otherwise clients could not
// read the list, or the line, that contains it.
func utf8Text(message []byte) []byte {
	if utf8.Valid(message) {
		return message
	}
	return bytes.ToValidUTF8(message, []byte("\uFFFD"))
}

// admit checks a message of a server before it is decoded, which takes a multiple of its
// size in memory for all but results.
func (f *flow) admit(message []byte) (head messageHead, ok bool, err error) {
	head, ok = headOf(message)
	switch {
	case ok && head.isAnswer() && len(head.Error) > maxChatter:
		return head, ok, fmt.Errorf("the error of the answer has %d bytes: %w", len(head.Error), tooLarge(maxChatter))
	case ok && head.isAnswer():
		return head, ok, nil
	case ok && len(message) > maxChatter:
		return head, ok, fmt.Errorf("%w: a message that is no answer has %d bytes; the limit is %d", errFlood, len(message), maxChatter)
	case ok && len(head.ID) > 0:
		return head, ok, f.take(len(message) + costOfRequest)
	}
	return head, ok, f.take(len(message) + costOfMessage)
}
