package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/store"
)

// readKeys reads the keys of a source, which is read again to verify signatures.
func readKeys(from secrets.KeySource) (k service.Keys, err error) {
	all, err := from()
	if err != nil {
		return service.Keys{}, err
	}
	k = service.Keys{Signing: all[0], Retired: all[1:]}
	k.Proofs, err = secrets.NewKeys(from)
	return k, err
}

// keyVar names the variable with the keys, used without --key-file.
const keyVar = "PERDURE_KEY"

// keyFlags name the keys that all replicas share.
type keyFlags struct {
	KeyFile           string `help:"File with the key that signs tokens for clients, and answers and signals to runs, the same for all gateways and workers: at least 64 hexadecimal digits, e.g. from openssl rand -hex 32. Keys in further lines are retired: they only verify. Default: the keys in PERDURE_KEY." placeholder:"FILE"`
	InsecureRandomKey bool   `help:"Generate a key at start. Other processes, and this one after a restart, reject what it signed."`
}

func (f keyFlags) keys() (service.Keys, error) {
	inline := secrets.Variable(keyVar)
	switch {
	case f.KeyFile != "":
		return readKeys(secrets.KeyFile(f.KeyFile))
	case inline != "":
		return readKeys(func() ([][]byte, error) { return secrets.ParseKeys(keyVar, inline) })
	case f.InsecureRandomKey:
		return readKeys(secrets.FixedKeys(newKey()))
	}
	return service.Keys{}, usagef(noKey + "; generate one with openssl rand -hex 32 " +
		"and set --key-file or PERDURE_KEY, or use --insecure-random-key for a single process")
}

// orOf are the keys of a dev's data directory where neither flag nor variable gives any.
// found is false if there are none there either.
func (f keyFlags) orOf(data dataDir) (_ keyFlags, found bool) {
	if f.KeyFile != "" || secrets.Variable(keyVar) != "" {
		return f, true
	}
	own := keyOf(data.String())
	if _, err := os.Stat(own); errors.Is(err, fs.ErrNotExist) {
		return f, false
	}
	f.KeyFile = own
	return f, true
}

const noKey = "no signing key given, which all gateways and workers share"

// keyOf is the file in which dev keeps its keys.
func keyOf(data string) string { return filepath.Join(data, "key") }

// keptKeys reads the keys of a data directory, or creates the first one.
func keptKeys(file string) (service.Keys, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if err := store.WriteFile(file, []byte(hex.EncodeToString(newKey())+"\n"), 0o600); err != nil {
			return service.Keys{}, err
		}
	}
	kept, err := readKeys(secrets.KeyFile(file))
	if err != nil {
		return service.Keys{}, fmt.Errorf("%w; remove the file to start with a new key, which ends open sessions of clients", err)
	}
	return kept, nil
}

func newKey() []byte {
	key := make([]byte, secrets.KeyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}
