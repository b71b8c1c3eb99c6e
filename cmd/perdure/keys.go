package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure/signing"
)

// Keys sign what clients carry from one request to the next, and what processes
// tell runs.
type keys struct {
	signing []byte
	retired [][]byte // still open what they have signed

	proofs *signing.Keys // of these; those of a file are read anew each time
}

// proving gives keys those by which runs believe what they are told.
func (k keys) proving(from signing.Source) (keys, error) {
	var err error
	k.proofs, err = signing.New(from)
	return k, err
}

// fixed are keys that stay as they are for as long as the process runs.
func (k keys) fixed() (keys, error) { return k.proving(signing.Fixed(k.signing, k.retired...)) }

// inFile are keys that are read from a file.
func (k keys) inFile(file string) (keys, error) {
	return k.proving(func() ([][]byte, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		now, err := parseKeys(file, string(text))
		return append([][]byte{now.signing}, now.retired...), err
	})
}

// keyBytes is the least that a key must have.
const keyBytes = 32

// keyVar holds the keys where --key-file does not name a file.
const keyVar = "PERDURE_KEY"

// keyFlags say where the keys are that all replicas share.
type keyFlags struct {
	KeyFile           string `help:"File with the key that signs what clients carry and what runs are told, the same for all gateways and workers: 64 hexadecimal digits or more, e.g. of openssl rand -hex 32. Keys in further lines are retired: they sign nothing, but what they signed is still taken. Default: the keys in PERDURE_KEY." placeholder:"FILE"`
	InsecureRandomKey bool   `help:"Make a key up: no other process, and not this one after a restart, takes what clients carry, or what runs are told."`
}

func (f keyFlags) keys() (keys, error) {
	inline := os.Getenv(keyVar)
	switch {
	case f.KeyFile != "":
		text, err := os.ReadFile(f.KeyFile)
		if err != nil {
			return keys{}, fmt.Errorf("reading the signing key: %w", err)
		}
		k, err := parseKeys("--key-file "+f.KeyFile, string(text))
		if err != nil {
			return keys{}, err
		}
		return k.inFile(f.KeyFile)
	case inline != "":
		k, err := parseKeys(keyVar, inline)
		if err != nil {
			return keys{}, err
		}
		return k.fixed()
	case f.InsecureRandomKey:
		return keys{signing: newKey()}.fixed()
	}
	return keys{}, usagef("a key is needed that signs what clients carry and what runs are told, the same for all gateways and workers: make one with openssl rand -hex 32, " +
		"and give it by --key-file or PERDURE_KEY; or make one up at each start with --insecure-random-key")
}

// parseKeys reads one key from each line that is not empty; the first one
// signs. What is wrong is said without the key.
func parseKeys(where, text string) (keys, error) {
	var all [][]byte
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		key, err := hex.DecodeString(line)
		if err != nil || len(key) < keyBytes {
			return keys{}, fmt.Errorf("%s, line %d: a key has %d hexadecimal digits or more, e.g. of openssl rand -hex %d", where, n, 2*keyBytes, keyBytes)
		}
		all = append(all, key)
	}
	if lines.Err() != nil || len(all) == 0 {
		return keys{}, fmt.Errorf("%s holds no key; make one with openssl rand -hex %d", where, keyBytes)
	}
	return keys{signing: all[0], retired: all[1:]}, nil
}

// keyOf is where dev keeps its keys.
func keyOf(data string) string { return filepath.Join(data, "key") }

// keptKeys reads the keys of a data directory, or makes the first one.
func keptKeys(file string) (keys, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key := newKey()
		if err := writeFile(file, []byte(hex.EncodeToString(key)+"\n"), 0o600); err != nil {
			return keys{}, err
		}
		return keys{signing: key}.inFile(file)
	}
	if err != nil {
		return keys{}, fmt.Errorf("reading the signing key: %w", err)
	}
	kept, err := parseKeys("the signing key "+file, string(text))
	if err != nil {
		return keys{}, fmt.Errorf("%w; remove it, and open sessions of clients end", err)
	}
	return kept.inFile(file)
}

func newKey() []byte {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}
