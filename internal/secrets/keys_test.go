package secrets_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/secrets"
)

func keysOf(t *testing.T, source secrets.KeySource) *secrets.Keys {
	t.Helper()
	keys := perduretest.Must(secrets.NewKeys(source))(t)
	return keys
}

// TestProofs shows what is taken and what is not, across a rotation.
func TestProofs(t *testing.T) {
	t.Parallel()
	older, newer, stranger := []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32)), []byte(strings.Repeat("c", 32))
	before := keysOf(t, secrets.FixedKeys(older))
	between := keysOf(t, secrets.FixedKeys(newer, older))
	after := keysOf(t, secrets.FixedKeys(newer))
	proof := before.Sign("answer", "run", "text")
	for name, c := range map[string]struct {
		keys      *secrets.Keys
		proof     string
		statement []string
		want      error
	}{
		"itself":               {before, proof, []string{"answer", "run", "text"}, nil},
		"a retired key":        {between, proof, []string{"answer", "run", "text"}, nil},
		"a withdrawn key":      {after, proof, []string{"answer", "run", "text"}, secrets.ErrUnknownKey},
		"not yet known":        {before, after.Sign("answer"), []string{"answer"}, secrets.ErrUnknownKey},
		"another text":         {before, proof, []string{"answer", "run", "texT"}, secrets.ErrForged},
		"cut elsewhere":        {before, proof, []string{"answer", "runtext"}, secrets.ErrForged},
		"a part more":          {before, proof, []string{"answer", "run", "text", ""}, secrets.ErrForged},
		"of a stranger":        {before, keysOf(t, secrets.FixedKeys(stranger)).Sign("answer", "run", "text"), []string{"answer", "run", "text"}, secrets.ErrUnknownKey},
		"a stranger's, our ID": {before, secrets.KeyOf(proof) + ".x", []string{"answer", "run", "text"}, secrets.ErrForged},
		"none":                 {before, "", []string{"answer", "run", "text"}, secrets.ErrUnknownKey},
		"no keys":              {nil, proof, []string{"answer", "run", "text"}, secrets.ErrUnknownKey},
	} {
		if err := c.keys.Check(c.proof, c.statement...); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if secrets.KeyOf(between.Sign("x")) != after.ID() || between.ID() != after.ID() {
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
	if err := keys.Check(old, "x"); !errors.Is(err, secrets.ErrUnknownKey) {
		t.Errorf("of a key that was withdrawn: %v", err)
	}
	if err := keys.Check(keys.Sign("x"), "x"); err != nil || secrets.KeyOf(keys.Sign("x")) == secrets.KeyOf(old) {
		t.Errorf("of the new key: %v", err)
	}
}

// TestKeysAreDerivedOnce shows that a proof makes no keys anew where what was read is as
// before: each takes two derivations.
func TestKeysAreDerivedOnce(t *testing.T) { // counts allocations, so nothing runs beside it
	secret := []byte(strings.Repeat("a", 32))
	known := keysOf(t, secrets.FixedKeys(secret))
	others := []byte(strings.Repeat("b", 32))
	anew := keysOf(t, func() ([][]byte, error) {
		secret, others = others, secret
		return [][]byte{secret}, nil
	})
	again := testing.AllocsPerRun(100, func() { known.Sign("x") })
	first := testing.AllocsPerRun(100, func() { anew.Sign("x") })
	if again > first/2 {
		t.Errorf("a proof by keys that are known takes %v allocations, by new ones %v", again, first)
	}
}

// TestNoKeys shows that there must be one.
func TestNoKeys(t *testing.T) {
	t.Parallel()
	if _, err := secrets.NewKeys(func() ([][]byte, error) { return nil, nil }); err == nil {
		t.Error("no key is taken for keys")
	}
	var none *secrets.Keys
	if none.Sign("x") != "" || none.ID() != "" {
		t.Error("no keys sign")
	}
}
