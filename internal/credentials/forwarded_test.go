package credentials_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
)

// What is kept for a run is there in the next process, is sealed, is that of the request
// which has started the run, whatever others have kept, and is there for nobody else.
func TestForwardedOfARun(t *testing.T) {
	t.Parallel()
	none := func(*lab) credentials.Strategy { return credentials.Strategy{} }
	l := newLab(t, none)
	want := backends.Forwarded{Headers: backends.Headers{"X-Key": "pl4nted"}, Meta: map[string]json.RawMessage{"acme.example/n": json.RawMessage("1")}}
	keep := func(key backends.Secret) (as string, drop func()) {
		what := want
		what.Headers = backends.Headers{"X-Key": key}
		as, drop, err := l.broker.KeepForwarded(t.Context(), "ada", "publish/1", what)
		if err != nil {
			t.Fatal(err)
		}
		return as, drop
	}
	keep("earlier") // and its start has failed
	as, _ := keep("pl4nted")
	joined, drop := keep("later")
	drop()
	l.start(none(l))
	l.gone("ada", joined)
	got, err := l.broker.Forwarded(t.Context(), "ada", as)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("kept is (-want +got), %v\n%s", err, diff)
	}
	l.gone("ben", as)
	l.gone("ada", "publish/1")
	if text := l.files(); !strings.Contains(text, "publish/1") || strings.Contains(text, "pl4nted") {
		t.Errorf("the store has %s", text)
	}
}

func (l *lab) gone(caller, run string) {
	l.t.Helper()
	_, err := l.broker.Forwarded(l.t.Context(), caller, run)
	if needed := new(backends.CredentialsError); !errors.As(err, &needed) || !strings.Contains(needed.Reason, "no longer kept") {
		l.t.Errorf("%s of %s: error %v", run, caller, err)
	}
}

func (l *lab) files() string {
	l.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return all.String()
}

// Callers with different headers have sessions of their own, and a header of the
// configuration counts before one of a caller.
func TestForwardedToABackend(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(l *lab) credentials.Strategy {
		l.backend = newGuarded(t, server.WithStreamableHTTPProtocolVersions("2025-11-25")) // which has sessions
		l.backend.header = "X-Key"
		l.backend.accept("", "blue", "red")
		return credentials.Strategy{Header: &credentials.Header{Name: "X-Other", Value: credentials.Source{Inline: "own"}}}
	})
	for _, key := range []backends.Secret{"blue", "red", "blue"} {
		l.must(backends.Caller{Name: "ada", Forwarded: backends.Forwarded{Headers: backends.Headers{"X-Key": key, "X-Other": "theirs"}}}, string(key))
	}
	l.must(run, "")
	keys := map[string]map[string]bool{} // by session
	l.backend.mu.Lock()
	defer l.backend.mu.Unlock()
	for _, h := range l.backend.seen {
		if h.Get("X-Other") != "own" {
			t.Errorf("X-Other was %q", h.Get("X-Other"))
		}
		if id := h.Get("Mcp-Session-Id"); id != "" {
			if keys[id] == nil {
				keys[id] = map[string]bool{}
			}
			keys[id][h.Get("X-Key")] = true
		}
	}
	for id, seen := range keys {
		if len(seen) != 1 {
			t.Errorf("session %s has requests with the keys %v", id, seen)
		}
	}
	if len(keys) != 3 {
		t.Errorf("%d sessions, want 3", len(keys))
	}
}
