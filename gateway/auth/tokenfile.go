package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/internal/secrets"
)

const (
	minToken  = 16          // bytes; shorter ones can be guessed
	lookEvery = time.Second // how often a token file is looked at, at most
)

// A TokenFile authenticates the bearer tokens that a file lists, for set-ups
// without an identity provider:
//
//	tokens:
//	  - subject: ci
//	    groups: [deployers]
//	    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//	  - subject: alice
//	    env: ALICE_TOKEN # the variable that has the token
//
// The file is read again when it changes. One with mistakes changes nothing:
// the tokens of before stay good, and the mistake is logged.
type TokenFile struct {
	name string
	log  *slog.Logger

	mu     sync.Mutex
	looked time.Time
	stamp  fileStamp
	tokens []knownToken
}

type knownToken struct {
	digest [sha256.Size]byte
	who    Identity
}

// A fileStamp changes when a file does.
type fileStamp struct {
	size     int64
	modified time.Time
}

// OpenTokenFile reads a token file. A nil logger discards.
func OpenTokenFile(name string, log *slog.Logger) (*TokenFile, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &TokenFile{name: name, log: log}
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Authenticate finds whose token a request has.
func (f *TokenFile) Authenticate(r *http.Request) (Identity, error) {
	token, err := bearer(r)
	if err != nil {
		return Identity{}, &Refusal{Challenge: challenge(), Err: err}
	}
	digest := sha256.Sum256([]byte(token))
	var found *Identity
	for _, known := range f.current() { // all of them, in constant time
		if subtle.ConstantTimeCompare(digest[:], known.digest[:]) == 1 {
			found = &known.who
		}
	}
	if found == nil {
		return Identity{}, &Refusal{Message: "unknown token", Challenge: challenge("error", invalidToken)}
	}
	who := *found
	who.Token = token
	return who, nil
}

// current are the tokens of the file as it is now.
func (f *TokenFile) current() []knownToken {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < lookEvery {
		return f.tokens
	}
	f.looked = time.Now()
	if stamp, err := stampOf(f.name); err == nil && stamp == f.stamp {
		return f.tokens
	}
	if err := f.read(); err != nil {
		f.log.Error("a changed token file has mistakes; the earlier tokens stay valid", "error", err)
	} else {
		f.log.Info("token file reloaded", "file", f.name, "tokens", len(f.tokens))
	}
	return f.tokens
}

func stampOf(name string) (fileStamp, error) {
	info, err := os.Stat(name)
	if err != nil {
		return fileStamp{}, err
	}
	return fileStamp{info.Size(), info.ModTime()}, nil
}

// read reads the file. Its mistakes are logged once for each change of the file.
func (f *TokenFile) read() error {
	stamp, err := stampOf(f.name)
	if err != nil {
		return readFailure(f.name, err)
	}
	f.stamp = stamp
	data, err := os.ReadFile(f.name)
	if err != nil {
		return readFailure(f.name, err)
	}
	if info, err := os.Stat(f.name); err == nil && info.Mode().Perm()&0o077 != 0 {
		f.log.Warn("other users can read or change the token file; run chmod 600",
			"file", f.name, "mode", info.Mode().Perm().String())
	}
	tokens, err := parseTokens(data)
	if err != nil {
		return fmt.Errorf("token file %s: %w", f.name, err)
	}
	f.tokens, f.looked = tokens, time.Now()
	return nil
}

func readFailure(name string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("cannot read token file %s: %w", name, err)
}

type tokenEntry struct {
	Subject string   `yaml:"subject"`
	Groups  []string `yaml:"groups"`
	SHA256  string   `yaml:"sha256"`
	Env     string   `yaml:"env"`
}

// parseTokens reads a token file. Its errors name entries and never values.
func parseTokens(data []byte) ([]knownToken, error) {
	var file struct {
		Tokens []tokenEntry `yaml:"tokens"`
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("tokens is missing")
	}
	if err := yaml.Load(data, &file, yaml.WithKnownFields()); err != nil {
		return nil, errors.New("it is not YAML of the form tokens: [{subject, groups, sha256 or env}]" + placeOf(err))
	}
	var tokens []knownToken
	seen := map[[sha256.Size]byte]string{}
	for i, entry := range file.Tokens {
		digest, err := entry.digest()
		if err != nil {
			return nil, fmt.Errorf("tokens[%d]: %w", i, err)
		}
		if other, taken := seen[digest]; taken {
			return nil, fmt.Errorf("tokens[%d]: %s has the same token as %s", i, entry.Subject, other)
		}
		seen[digest] = entry.Subject
		tokens = append(tokens, knownToken{digest, Identity{Subject: entry.Subject, Groups: entry.Groups}})
	}
	return tokens, nil
}

// placeOf returns the position in a YAML error, without the content.
func placeOf(err error) string {
	var at *yaml.LoadError
	if errors.As(err, &at) && at.Mark.Line > 0 {
		return fmt.Sprintf(" (line %d)", at.Mark.Line)
	}
	return ""
}

func (e tokenEntry) digest() (digest [sha256.Size]byte, err error) {
	switch {
	case !Plain(e.Subject) || e.Subject == Anonymous:
		return digest, fmt.Errorf("subject is missing, is %s or has a #", Anonymous)
	case (e.SHA256 == "") == (e.Env == ""):
		return digest, errors.New("one of sha256 and env is needed")
	case e.SHA256 != "":
		sum, err := hex.DecodeString(e.SHA256)
		if err != nil || copy(digest[:], sum) != sha256.Size || len(sum) != sha256.Size {
			return digest, errors.New("sha256 is not 64 hexadecimal digits: the SHA-256 of the token")
		}
		return digest, nil
	}
	token := secrets.Variable(e.Env)
	if len(token) < minToken {
		return digest, fmt.Errorf("environment variable %s has no token of at least %d characters", e.Env, minToken)
	}
	return sha256.Sum256([]byte(token)), nil
}
