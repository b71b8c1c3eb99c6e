package inbox

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

// formLife is how long a form may be filled in.
const formLife = 24 * time.Hour

// formKeys sign forms: whoever sends one has been given it.
type formKeys struct {
	keys [][]byte // the first one signs
}

func newFormKeys(key []byte, retired [][]byte) *formKeys {
	f := &formKeys{}
	for _, k := range append([][]byte{key}, retired...) {
		derived, err := hkdf.Key(sha256.New, k, nil, "perdure approvals form", sha256.Size)
		if err != nil {
			panic("inbox: deriving a key: " + err.Error()) // never, for one of this length
		}
		f.keys = append(f.keys, derived)
	}
	return f
}

// sign makes the token of a form: until when it is valid, and for whom and what.
func (f *formKeys) sign(now time.Time, what ...string) string {
	expires := strconv.FormatInt(now.Add(formLife).Unix(), 36)
	return expires + "." + mac(f.keys[0], expires, what)
}

// verify reports whether sign made a token for the same, not too long ago.
func (f *formKeys) verify(now time.Time, token string, what ...string) bool {
	expires, sent, _ := strings.Cut(token, ".")
	until, err := strconv.ParseInt(expires, 36, 64)
	if err != nil || now.Unix() > until {
		return false
	}
	valid := false
	for _, key := range f.keys {
		valid = hmac.Equal([]byte(mac(key, expires, what)), []byte(sent)) || valid
	}
	return valid
}

func mac(key []byte, expires string, what []string) string {
	m := hmac.New(sha256.New, key)
	_ = json.NewEncoder(m).Encode(append([]string{expires}, what...)) // strings are always JSON
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
