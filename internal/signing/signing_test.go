package signing_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/internal/signing"
)

func keysOf(t *testing.T, source signing.Source) *signing.Keys {
	t.Helper()
	keys, err := signing.New(source)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestProofs shows what is taken and what is not, across a rotation.
func TestProofs(t *testing.T) {
	t.Parallel()
	older, newer, stranger := []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32)), []byte(strings.Repeat("c", 32))
	before := keysOf(t, signing.Fixed(older))
	between := keysOf(t, signing.Fixed(newer, older))
	after := keysOf(t, signing.Fixed(newer))
	proof := before.Sign("answer", "run", "text")
	for name, c := range map[string]struct {
		keys      *signing.Keys
		proof     string
		statement []string
		want      error
	}{
		"itself":               {before, proof, []string{"answer", "run", "text"}, nil},
		"a retired key":        {between, proof, []string{"answer", "run", "text"}, nil},
		"a withdrawn key":      {after, proof, []string{"answer", "run", "text"}, signing.ErrUnknownKey},
		"not yet known":        {before, after.Sign("answer"), []string{"answer"}, signing.ErrUnknownKey},
		"another text":         {before, proof, []string{"answer", "run", "texT"}, signing.ErrForged},
		"cut elsewhere":        {before, proof, []string{"answer", "runtext"}, signing.ErrForged},
		"a part more":          {before, proof, []string{"answer", "run", "text", ""}, signing.ErrForged},
		"of a stranger":        {before, keysOf(t, signing.Fixed(stranger)).Sign("answer", "run", "text"), []string{"answer", "run", "text"}, signing.ErrUnknownKey},
		"a stranger's, our ID": {before, signing.KeyOf(proof) + ".x", []string{"answer", "run", "text"}, signing.ErrForged},
		"none":                 {before, "", []string{"answer", "run", "text"}, signing.ErrUnknownKey},
		"no keys":              {nil, proof, []string{"answer", "run", "text"}, signing.ErrUnknownKey},
	} {
		if err := c.keys.Check(c.proof, c.statement...); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if signing.KeyOf(between.Sign("x")) != after.ID() || between.ID() != after.ID() {
		t.Error("the first key does not sign")
	}
}

// TestKeysAreReadAnew shows that a key counts from its first moment until its
// last, also where the file is not to be read for a while.
func TestKeysAreReadAnew(t *testing.T) {
	t.Parallel()
	older, newer := []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32))
	var now atomic.Pointer[[][]byte]
	now.Store(&[][]byte{older})
	keys := keysOf(t, func() ([][]byte, error) {
		if all := now.Load(); all != nil {
			return *all, nil
		}
		return nil, errors.New("not to be read")
	})
	old := keys.Sign("x")
	now.Store(nil)
	if err := keys.Check(old, "x"); err != nil {
		t.Errorf("while the file is away: %v", err)
	}
	now.Store(&[][]byte{newer})
	if err := keys.Check(old, "x"); !errors.Is(err, signing.ErrUnknownKey) {
		t.Errorf("of a key that was withdrawn: %v", err)
	}
	if err := keys.Check(keys.Sign("x"), "x"); err != nil || signing.KeyOf(keys.Sign("x")) == signing.KeyOf(old) {
		t.Errorf("of the new key: %v", err)
	}
}

// TestNoKeys shows that there must be one.
func TestNoKeys(t *testing.T) {
	t.Parallel()
	if _, err := signing.New(func() ([][]byte, error) { return nil, nil }); err == nil {
		t.Error("no key is taken for keys")
	}
	var none *signing.Keys
	if none.Sign("x") != "" || none.ID() != "" {
		t.Error("no keys sign")
	}
}
