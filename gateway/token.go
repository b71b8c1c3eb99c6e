package gateway

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// What a token is for. A token of one purpose never opens as another.
const (
	sessionPurpose  = "session"  // Mcp-Session-Id
	eventPurpose    = "event"    // SSE event id
	questionPurpose = "question" // JSON-RPC id of elicitation/create
	statePurpose    = "state"    // requestState
	passedPurpose   = "passed"   // requestState around that of a backend
	taskPurpose     = "task"     // taskId
	placePurpose    = "place"    // cursor of tasks/list
)

// Lifetimes of tokens whose purpose sets none.
const (
	sessionLife = 7 * 24 * time.Hour
	stateLife   = 7 * 24 * time.Hour
)

var (
	errForged  = errors.New("not a token of this server")
	errNoKey   = errors.New("the token is signed with a key that this process lacks")
	errExpired = errors.New("token has expired")
	errForeign = errors.New("token belongs to another caller")
)

// Claims are in every token.
type claims struct {
	CallerID string `json:"p"`           // whose token it is
	Expires  int64  `json:"e,omitempty"` // Unix seconds; 0 = with what it names
}

func (c claims) check(callerID string, now time.Time) error {
	switch {
	case c.CallerID != callerID:
		return errForeign
	case c.Expires != 0 && now.Unix() > c.Expires:
		return errExpired
	}
	return nil
}

type token interface {
	check(callerID string, now time.Time) error
}

// A session is what initialize declared about a client of the session era.
type session struct {
	claims
	Nonce   string `json:"n"`
	Version string `json:"v"`
	CanAsk  bool   `json:"a,omitempty"`
	CanOpen bool   `json:"u,omitempty"`
	Client  string `json:"c,omitempty"`
}

// A cursor is a place in the stream of a call: all that it takes to continue from
// there, anywhere.
type cursor struct {
	claims
	Run      runs.RunID      `json:"r"`
	Owner    string          `json:"o,omitempty"` // caller of the run; "" = whose token it is
	Tool     string          `json:"t"`           // that was called
	Seq      int64           `json:"s"`           // of the last event that was rendered
	ID       json.RawMessage `json:"i"`           // of the call
	Token    json.RawMessage `json:"k,omitempty"`
	Progress float64         `json:"g"`           // the last that was sent; -1 = none
	Asked    map[string]int  `json:"q,omitempty"` // times each open elicitation was asked
	Attached bool            `json:"x,omitempty"`
	Task     string          `json:"w,omitempty"` // whose tasks/result it is; empty = of a call
}

// A question names an elicitation as it was asked in one call, once.
type question struct {
	claims
	Run   runs.RunID `json:"r"`
	Owner string     `json:"o,omitempty"` // as in a cursor
	Gate  string     `json:"g"`
	Call  string     `json:"c"`           // digest of the id of the call, as that of a question must be its own
	Asks  string     `json:"d,omitempty"` // Elicitation.Digest: what was asked
	Time  int        `json:"n"`           // 1 = asked for the first time
	URL   bool       `json:"u,omitempty"` // the client was asked to open a page
}

// name is what a run calls the question, whichever key has signed it.
func (q *question) name() string { return encode64(digest("question", string(mustEncode(q)))[:12]) }

// A state is a call of a client that answers by retrying it.
type state struct {
	claims
	Run      runs.RunID        `json:"r"`
	Owner    string            `json:"o,omitempty"` // as in a cursor
	Tool     string            `json:"t"`
	Seq      int64             `json:"s"`
	Asked    map[string]int    `json:"q"`           // times each elicitation that is open was asked
	Attached bool              `json:"x,omitempty"` // as in a cursor
	Asks     map[string]string `json:"d,omitempty"` // what each asked, as in a question
	Rounds   map[string]string `json:"n,omitempty"` // Elicitation.Round of each that has one
	URLs     []string          `json:"u,omitempty"` // those that the client was asked to open a page for

	Arguments string `json:"a"`           // digest of those of the call
	From      string `json:"f,omitempty"` // name of the request that asks, where that counts; see exchange.countsAnswer
}

// A sealer signs tokens: PURPOSE.KEYID.PAYLOAD.MAC, all but the purpose in
// unpadded base64url. What is in a token can be read by all who have it.
type sealer struct {
	keys []signingKey // the first one signs
	now  func() time.Time

	lacks func(time.Time) // is told of tokens with errNoKey; nil = nobody is
}

type signingKey struct {
	id     string
	secret []byte
}

// time is that of the clock by which tokens expire.
func (s *sealer) time() time.Time { return s.now() }

func newSealer(key []byte, retired [][]byte) *sealer {
	s := &sealer{now: time.Now}
	for _, k := range append([][]byte{key}, retired...) {
		sum := sha256.Sum256(append([]byte("perdure key id\x00"), k...))
		s.keys = append(s.keys, signingKey{id: encode64(sum[:4]), secret: k})
	}
	return s
}

// seal is deterministic: what is sealed twice is the same token.
func (s *sealer) seal(purpose string, t token) string {
	head := purpose + "." + s.keys[0].id + "." + encode64(mustEncode(t))
	return head + "." + s.keys[0].mac(head)
}

// open reads a token that seal made for this purpose and caller.
func (s *sealer) open(purpose, text, callerID string, into token) error {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != purpose {
		return errForged
	}
	head, mac := text[:len(text)-len(parts[3])-1], parts[3]
	if err := s.signed(parts[1], head, mac); err != nil {
		return err
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || json.Unmarshal(payload, into) != nil {
		return errForged
	}
	return into.check(callerID, s.now())
}

func (s *sealer) signed(keyID, head, mac string) error {
	for _, k := range s.keys {
		if k.id == keyID && hmac.Equal([]byte(k.mac(head)), []byte(mac)) {
			return nil
		} else if k.id == keyID {
			return errForged
		}
	}
	if s.lacks != nil {
		s.lacks(s.now())
	}
	return errNoKey
}

// lackWarnings warns of tokens that are signed with a key which this process lacks, once
// in a while: anybody can send one.
func lackWarnings(log *slog.Logger) func(time.Time) {
	var last atomic.Int64
	return func(now time.Time) {
		if before := last.Load(); now.Unix()-before >= 60 && last.CompareAndSwap(before, now.Unix()) {
			log.Warn("a client has a session or task that is signed with a key which this gateway lacks; if keys were not changed lately, gateways have different ones: compare key= in the line ready of their logs")
		}
	}
}

func (k signingKey) mac(head string) string {
	m := hmac.New(sha256.New, k.secret)
	m.Write([]byte(head))
	return encode64(m.Sum(nil)[:16])
}

// derivedID is the ID of the run that a call represents, whichever replica gets it. It
// need not be secret: who may see a run is asked of its caller. Eighty bits keep
// unrelated calls apart.
func derivedID(tool string, from ...string) runs.RunID {
	sum := digest(append([]string{"run"}, from...)...)
	return runs.RunID(tool + "/" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10])))
}

// digest hashes parts so that none can pass for another.
func digest(parts ...string) []byte {
	sum := sha256.Sum256(mustEncode(parts))
	return sum[:]
}

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// encode is compact JSON that leaves numbers and text as they are.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// mustEncode is for what consists of strings, numbers and JSON that was read.
func mustEncode(v any) []byte {
	b, err := encode(v)
	if err != nil {
		panic("gateway: encoding what is always JSON: " + err.Error())
	}
	return b
}
