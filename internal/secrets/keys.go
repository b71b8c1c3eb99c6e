package secrets

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Errors of Keys.Check.
var (
	ErrUnknownKey = errors.New("the key that signed it is not among the keys of this process")
	ErrForged     = errors.New("it was not signed for this")
)

// A KeySource reads the current keys: the first one signs, all of them verify.
type KeySource func() ([][]byte, error)

// FixedKeys are keys that never change.
func FixedKeys(current []byte, retired ...[]byte) KeySource {
	all := append([][]byte{current}, retired...)
	return func() ([][]byte, error) { return all, nil }
}

// Keys sign statements and verify them: a statement comes from a process of the
// installation, since the processes share keys. They are read each time, so that a withdrawn or a new key
// counts at once. They are safe for concurrent use; nil = no keys.
type Keys struct {
	source KeySource

	mu   sync.Mutex
	read [][]byte // last, successfully
	last []key    // of these
}

type key struct {
	id     string
	secret []byte
}

// NewKeys reads the keys for the first time.
func NewKeys(source KeySource) (*Keys, error) {
	k := &Keys{source: source}
	secrets, err := source()
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no key to sign with")
	}
	k.read, k.last = secrets, derived(secrets)
	return k, nil
}

// current reads the keys. If that fails, such as while the file is replaced, the last
// ones count.
func (k *Keys) current() []key {
	if k == nil {
		return nil
	}
	secrets, err := k.source()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && len(secrets) > 0 && !slices.EqualFunc(secrets, k.read, bytes.Equal) {
		k.read, k.last = secrets, derived(secrets)
	}
	return k.last
}

// derived are the keys of this package, so that proofs and other tokens signed with the
// same key cannot replace each other.
func derived(secrets [][]byte) []key {
	keys := make([]key, len(secrets))
	for i, secret := range secrets {
		keys[i] = key{id: encode(derive(secret, "perdure proof key id")[:6]), secret: derive(secret, "perdure proof")}
	}
	return keys
}

func derive(secret []byte, purpose string) []byte {
	d, err := hkdf.Key(sha256.New, secret, nil, purpose, sha256.Size)
	if err != nil {
		panic("secrets: deriving a key: " + err.Error()) // never for this length
	}
	return d
}

// Sign makes the proof of a statement; "" without keys. The statement is a list; different
// lists have different proofs.
func (k *Keys) Sign(statement ...string) string {
	all := k.current()
	if len(all) == 0 {
		return ""
	}
	return all[0].id + "." + all[0].mac(statement)
}

// Check verifies the proof of a statement: ErrUnknownKey, ErrForged, or nil.
func (k *Keys) Check(proof string, statement ...string) error {
	id, mac, _ := strings.Cut(proof, ".")
	for _, key := range k.current() {
		if key.id != id {
			continue
		}
		if !hmac.Equal([]byte(key.mac(statement)), []byte(mac)) {
			return ErrForged
		}
		return nil
	}
	return ErrUnknownKey
}

// KeyOf names the key that a proof claims; no secret.
func KeyOf(proof string) string {
	id, _, _ := strings.Cut(proof, ".")
	return id
}

// ID names the key that signs; "" without keys.
func (k *Keys) ID() string {
	all := k.current()
	if len(all) == 0 {
		return ""
	}
	return all[0].id
}

func (k key) mac(statement []string) string {
	m := hmac.New(sha256.New, k.secret)
	for _, part := range statement {
		fmt.Fprintf(m, "%d:%s", len(part), part)
	}
	return encode(m.Sum(nil))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
