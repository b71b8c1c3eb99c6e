// Package signing proves that one of our own processes says something. The processes
// of an installation share keys; what one of them signs, the others check.
package signing

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// What a proof may lack.
var (
	ErrUnknownKey = errors.New("the key that signed it is not among the keys of this process")
	ErrForged     = errors.New("it was not signed for this")
)

// A Source reads the keys as they are now: the first one signs, and what any of
// them has signed is taken.
type Source func() ([][]byte, error)

// Fixed are keys that stay as they are.
func Fixed(current []byte, retired ...[]byte) Source {
	all := append([][]byte{current}, retired...)
	return func() ([][]byte, error) { return all, nil }
}

// Keys sign and check. They are read anew each time, so that one that is
// withdrawn counts no more at once, and a new one from its first moment. Keys may
// be used at the same time; nil are no keys.
type Keys struct {
	source Source

	mu   sync.Mutex
	last []key // that could be read
}

type key struct {
	id     string
	secret []byte
}

// New reads the keys for the first time.
func New(source Source) (*Keys, error) {
	k := &Keys{source: source}
	secrets, err := source()
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no key to sign with")
	}
	k.last = derived(secrets)
	return k, nil
}

// current are the keys of now. Where they cannot be read, such as while their
// file is replaced, those of before count.
func (k *Keys) current() []key {
	if k == nil {
		return nil
	}
	secrets, err := k.source()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && len(secrets) > 0 {
		k.last = derived(secrets)
	}
	return k.last
}

// derived are the keys of this package: a proof says nothing of tokens that are
// signed with the same key.
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
		panic("signing: deriving a key: " + err.Error()) // never, for one of this length
	}
	return d
}

// Sign makes the proof of a statement, "" without keys. The statement is a list,
// of which no two come to the same.
func (k *Keys) Sign(statement ...string) string {
	all := k.current()
	if len(all) == 0 {
		return ""
	}
	return all[0].id + "." + all[0].mac(statement)
}

// Check checks the proof of a statement: ErrUnknownKey, ErrForged, or nil.
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

// KeyOf names the key that a proof says it was made with; no secret.
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
