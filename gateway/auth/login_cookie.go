package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
)

// A cookieSealer encrypts cookies, so that no one without its key reads or makes them.
type cookieSealer struct {
	keys []cipher.AEAD // the first one seals
}

func newCookieSealer(key []byte, retired [][]byte) *cookieSealer {
	s := &cookieSealer{}
	for _, k := range append([][]byte{key}, retired...) {
		s.keys = append(s.keys, newAEAD(k))
	}
	return s
}

// newAEAD derives a key that is for cookies only.
func newAEAD(key []byte) cipher.AEAD {
	derived, err := hkdf.Key(sha256.New, key, nil, "perdure browser cookies", 32)
	if err != nil {
		panic("auth: deriving a key: " + err.Error()) // never, for one of this length
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic("auth: making a cipher: " + err.Error())
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("auth: making a cipher: " + err.Error())
	}
	return aead
}

// seal makes text of a value. What is sealed for one purpose does not open for
// another.
func (s *cookieSealer) seal(purpose string, v any) string {
	plain, err := json.Marshal(v)
	if err != nil {
		panic("auth: sealing what is always JSON: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(s.keys[0].Seal(nil, nil, plain, []byte(purpose)))
}

var errNotSealed = errors.New("not sealed by this server")

// open reads what seal made.
func (s *cookieSealer) open(purpose, text string, into any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errNotSealed
	}
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, sealed, []byte(purpose)); err == nil {
			return json.Unmarshal(plain, into)
		}
	}
	return errNotSealed
}
