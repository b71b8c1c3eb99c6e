package payloads

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Source gives the text with the keys: one to a line, ID:KEY, the key as 64
// hexadecimal digits. The first one seals, all of them open. Empty lines and
// those that begin with # are skipped.
type Source func(ctx context.Context) ([]byte, error)

// Keys seal and open payloads. They are read again for a payload with an unknown key, so
// that a new key can be added while processes run. They are safe for concurrent use; only
// what has an unknown key waits while they are read.
type Keys struct {
	source Source
	all    atomic.Pointer[[]key] // the first one seals

	reading sync.Mutex
	read    time.Time // when they were read last
}

// ErrNoKey is in the chain of errors of payloads with an unknown key.
var ErrNoKey error = missing("which is not among the payload keys")

// A missing error says that a value cannot be had here for now.
type missing string

func (m missing) Error() string { return string(m) }

// Temporary is true: the value may be had later, or by another process.
func (missing) Temporary() bool { return true }

type key struct {
	id     string
	secret []byte
}

// rereadPause is the least time between two reads of the keys.
const rereadPause = 10 * time.Second

// sourceLimit is how long reading the keys may take.
const sourceLimit = 30 * time.Second

// ReadKeys reads the keys. An error names the line, and never a key.
func ReadKeys(ctx context.Context, source Source) (*Keys, error) {
	k := &Keys{source: source}
	return k, k.refresh(ctx)
}

func (k *Keys) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sourceLimit)
	defer cancel()
	text, err := k.source(ctx)
	k.read = time.Now()
	if err != nil {
		return err
	}
	all, err := parseKeys(text)
	if err == nil {
		k.all.Store(&all)
	}
	return err
}

// Has reports whether there is a key of this ID.
func (k *Keys) Has(id string) bool {
	_, ok := k.known(id)
	return ok
}

// sealing is the key that seals.
func (k *Keys) sealing() key { return (*k.all.Load())[0] }

func (k *Keys) known(id string) (key, bool) {
	all := *k.all.Load()
	i := slices.IndexFunc(all, func(candidate key) bool { return candidate.id == id })
	if i < 0 {
		return key{}, false
	}
	return all[i], true
}

// opening is the key with the ID.
func (k *Keys) opening(id string) (key, error) {
	if found, ok := k.known(id); ok {
		return found, nil
	}
	k.reading.Lock()
	defer k.reading.Unlock()
	if time.Since(k.read) > rereadPause {
		if err := k.refresh(context.Background()); err != nil {
			return key{}, fmt.Errorf("it was sealed with key %q, %w, and reading the keys again failed: %w", id, ErrNoKey, err)
		}
	}
	found, ok := k.known(id)
	if !ok {
		return key{}, fmt.Errorf("it was sealed with key %q, %w", id, ErrNoKey)
	}
	return found, nil
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func parseKeys(text []byte) ([]key, error) {
	var all []key
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, digits, _ := strings.Cut(line, ":")
		secret, err := hex.DecodeString(strings.TrimSpace(digits))
		switch {
		case !keyID.MatchString(id) || err != nil || len(secret) != 32:
			return nil, fmt.Errorf("line %d: must be ID:KEY, the ID of letters, digits and ._-, the KEY 64 hexadecimal digits, e.g. from openssl rand -hex 32", n)
		case slices.ContainsFunc(all, func(k key) bool { return k.id == id }):
			return nil, fmt.Errorf("line %d: duplicate key ID %q", n, id)
		}
		all = append(all, key{id, secret})
	}
	if lines.Err() != nil || len(all) == 0 {
		return nil, errors.New("no keys; write lines ID:KEY, each KEY e.g. from openssl rand -hex 32")
	}
	return all, nil
}
