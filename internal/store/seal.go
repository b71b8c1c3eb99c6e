package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Keys seal secrets. They are derived from the service's signing keys, so that there is
// one key to keep and to rotate.
type Keys struct {
	sealing []sealingKey // the first one seals; all open
}

type sealingKey struct {
	id   string // of the key, stored with each secret
	aead cipher.AEAD
}

// Purposes of derived keys (HKDF's info, RFC 5869 section 3.2).
const (
	sealingInfo = "perdure store sealing v1"
	keyIDInfo   = "perdure store key id v1"
)

// NewKeys derives the keys: current seals, retired ones only open.
func NewKeys(current []byte, retired ...[]byte) (*Keys, error) {
	k := &Keys{}
	for _, master := range append([][]byte{current}, retired...) {
		if len(master) < 16 {
			return nil, errors.New("the signing key is too short to seal with; it needs at least 16 bytes, better 32")
		}
		key, err := derive(master)
		if err != nil {
			return nil, fmt.Errorf("deriving a key for the store: %w", err)
		}
		k.sealing = append(k.sealing, key)
	}
	return k, nil
}

func derive(master []byte) (sealingKey, error) {
	secret, err := hkdf.Key(sha256.New, master, nil, sealingInfo, 32)
	if err != nil {
		return sealingKey{}, err
	}
	id, err := hkdf.Key(sha256.New, master, nil, keyIDInfo, 4)
	if err != nil {
		return sealingKey{}, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return sealingKey{}, err
	}
	aead, err := cipher.NewGCM(block)
	return sealingKey{id: hex.EncodeToString(id), aead: aead}, err
}

// seal encrypts a secret for a key of the store: nonce and AES-256-GCM. It does not open
// under another key.
func (k *Keys) seal(key Key, secret []byte) (keyID string, sealed []byte) {
	s := k.sealing[0]
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return s.id, s.aead.Seal(nonce, nonce, secret, key.bound())
}

var errSealed = errors.New("sealed with an unknown key")

func (k *Keys) open(key Key, keyID string, sealed []byte) ([]byte, error) {
	for _, s := range k.sealing {
		if s.id != keyID || len(sealed) < s.aead.NonceSize() {
			continue
		}
		n := s.aead.NonceSize()
		return s.aead.Open(nil, sealed[:n], sealed[n:], key.bound())
	}
	return nil, errSealed
}

// grant adds the opened secret of a key to a grant. A secret that has expired, or that
// no key opens, is none.
func (k *Keys) grant(log *slog.Logger, key Key, keyID string, sealed []byte, g Grant) Grant {
	if len(sealed) == 0 || g.expired(time.Now()) {
		return Grant{Wanted: g.Wanted}
	}
	secret, err := k.open(key, keyID, sealed)
	if err != nil {
		log.Warn("cannot open an entry of the store, which counts as none", "backend", key.Backend, "error", err)
		return Grant{Wanted: g.Wanted}
	}
	g.Secret = secret
	return g
}

// bound is the additional data of a sealed secret.
func (k Key) bound() []byte { return fmt.Appendf(nil, "%q %q", k.Caller, k.Backend) }
