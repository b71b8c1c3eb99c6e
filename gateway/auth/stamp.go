package auth

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Stamps sign short texts for one purpose and some time: what bears a stamp was
// given out by a process with the key, not too long ago.
type Stamps struct {
	life time.Duration
	keys [][]byte // the first one signs
}

// NewStamps derives the keys of a purpose. Retired keys verify, but sign nothing.
func NewStamps(purpose string, life time.Duration, key []byte, retired [][]byte) *Stamps {
	s := &Stamps{life: life}
	for _, k := range append([][]byte{key}, retired...) {
		derived, err := hkdf.Key(sha256.New, k, nil, "perdure "+purpose, sha256.Size)
		if err != nil {
			panic("auth: deriving a key: " + err.Error()) // never, for one of this length
		}
		s.keys = append(s.keys, derived)
	}
	return s
}

// Sign makes a stamp: until when it is valid, and for what.
func (s *Stamps) Sign(now time.Time, what ...string) string {
	expires := strconv.FormatInt(now.Add(s.life).Unix(), 36)
	return expires + "." + mac(s.keys[0], expires, what)
}

// Verify reports when a stamp for the same was made, if that was not too long ago.
func (s *Stamps) Verify(now time.Time, stamp string, what ...string) (made time.Time, valid bool) {
	expires, sent, _ := strings.Cut(stamp, ".")
	until, err := strconv.ParseInt(expires, 36, 64)
	if err != nil || now.Unix() > until {
		return time.Time{}, false
	}
	for _, key := range s.keys {
		valid = hmac.Equal([]byte(mac(key, expires, what)), []byte(sent)) || valid
	}
	return time.Unix(until, 0).Add(-s.life), valid
}

func mac(key []byte, expires string, what []string) string {
	m := hmac.New(sha256.New, key)
	_ = json.NewEncoder(m).Encode(append([]string{expires}, what...)) // strings are always JSON
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
