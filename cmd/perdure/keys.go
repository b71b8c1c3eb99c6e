package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/signing"
)

// readKeys reads keys, which are read again by those who check proofs.
func readKeys(from signing.Source) (k service.Keys, err error) {
	all, err := from()
	if err != nil {
		return service.Keys{}, err
	}
	k = service.Keys{Signing: all[0], Retired: all[1:]}
	k.Proofs, err = signing.New(from)
	return k, err
}

// keyVar holds the keys where --key-file does not name a file.
const keyVar = "PERDURE_KEY"

// keyFlags say where the keys are that all replicas share.
type keyFlags struct {
	KeyFile           string `help:"File with the key that signs what clients carry and what runs are told, the same for all gateways and workers: 64 hexadecimal digits or more, e.g. of openssl rand -hex 32. Keys in further lines are retired: they sign nothing, but what they signed is still taken. Default: the keys in PERDURE_KEY." placeholder:"FILE"`
	InsecureRandomKey bool   `help:"Make a key up: no other process, and not this one after a restart, takes what clients carry, or what runs are told."`
}

func (f keyFlags) keys() (service.Keys, error) {
	inline := environ.Secret(keyVar)
	switch {
	case f.KeyFile != "":
		return readKeys(signing.File(f.KeyFile))
	case inline != "":
		return readKeys(func() ([][]byte, error) { return signing.Parse(keyVar, inline) })
	case f.InsecureRandomKey:
		return readKeys(signing.Fixed(newKey()))
	}
	return service.Keys{}, usagef("a key is needed that signs what clients carry and what runs are told, the same for all gateways and workers: make one with openssl rand -hex 32, " +
		"and give it by --key-file or PERDURE_KEY; or make one up at each start with --insecure-random-key")
}

// keyOf is where dev keeps its keys.
func keyOf(data string) string { return filepath.Join(data, "key") }

// keptKeys reads the keys of a data directory, or makes the first one.
func keptKeys(file string) (service.Keys, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if err := writeFile(file, []byte(hex.EncodeToString(newKey())+"\n"), 0o600); err != nil {
			return service.Keys{}, err
		}
	}
	kept, err := readKeys(signing.File(file))
	if err != nil {
		return service.Keys{}, fmt.Errorf("%w; remove it, and open sessions of clients end", err)
	}
	return kept, nil
}

func newKey() []byte {
	key := make([]byte, signing.KeyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}
