package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/test/pgtest"
)

// A kind of store: open opens it again and again in the same place, and raw is
// all that it keeps, as it keeps it.
type kind struct {
	open func(t *testing.T, keys *store.Keys) store.Grants
	raw  func(t *testing.T) []byte
	age  func(t *testing.T) // has all that it keeps be two minutes older
}

// forEachKind runs a test against every kind of store, empty.
func forEachKind(t *testing.T, f func(t *testing.T, k kind)) {
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		f(t, files(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, postgres(t, pgtest.Start(t).URL("postgres")))
	})
}

func files(t *testing.T) kind {
	dir := filepath.Join(t.TempDir(), "grants")
	return kind{
		open: func(t *testing.T, keys *store.Keys) store.Grants {
			s, err := store.OpenFiles(dir, keys, testLogger(t))
			return opened(t, s, err)
		},
		raw: func(t *testing.T) []byte {
			var all bytes.Buffer
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				fmt.Fprintf(&all, "%s %s\n", path, text)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return all.Bytes()
		},
		age: func(t *testing.T) {
			names := perduretest.Must(filepath.Glob(filepath.Join(dir, "*.json")))(t)
			for _, name := range names {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				var record map[string]any
				perduretest.NoError(t, json.Unmarshal(text, &record))
				record["changed"] = time.Now().Add(-2 * time.Minute)
				if text, err = json.Marshal(record); err == nil {
					err = os.WriteFile(name+".new", text, 0o600)
				}
				if err == nil { // as the store writes: it may be reading, and takes half a file for a damaged one
					err = os.Rename(name+".new", name)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		},
	}
}

func postgres(t *testing.T, url string) kind {
	return kind{
		open: func(t *testing.T, keys *store.Keys) store.Grants {
			s, err := store.OpenPostgres(t.Context(), url, keys, testLogger(t))
			return opened(t, s, err)
		},
		raw: func(t *testing.T) []byte {
			c := perduretest.Must(pgx.Connect(t.Context(), url))(t)
			defer c.Close(context.Background())
			var all bytes.Buffer
			if _, err := c.PgConn().CopyTo(t.Context(), &all, "copy (select *, encode(sealed, 'escape') from perdure.grants) to stdout"); err != nil {
				t.Fatal(err)
			}
			return all.Bytes()
		},
		age: func(t *testing.T) {
			c := perduretest.Must(pgx.Connect(t.Context(), url))(t)
			defer c.Close(context.Background())
			if _, err := c.Exec(t.Context(), "update perdure.grants set changed = changed - interval '2 minutes'"); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func opened[S store.Grants](t *testing.T, s S, err error) store.Grants {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

func newKeys(t *testing.T, current string, retired ...string) *store.Keys {
	t.Helper()
	var old [][]byte
	for _, key := range retired {
		old = append(old, master(key))
	}
	keys := perduretest.Must(store.NewKeys(master(current), old...))(t)
	return keys
}

func master(name string) []byte { return []byte(strings.Repeat(name, 32)) }

var (
	adaMail = store.Key{Caller: "https://idp#ada", Backend: "mail"}
	benMail = store.Key{Caller: "https://idp#ben", Backend: "mail"}
	adaRepo = store.Key{Caller: "https://idp#ada", Backend: "repo"}
)

func put(t *testing.T, s store.Grants, key store.Key, g store.Grant) {
	t.Helper()
	err := s.Change(t.Context(), key, func(context.Context, store.Grant) (store.Grant, error) { return g, nil })
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, s store.Grants, key store.Key, want store.Grant) {
	t.Helper()
	got := perduretest.Must(s.Get(t.Context(), key))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v (-want +got)\n%s", key, diff)
	}
}

// soon is a time that every store can hold.
func soon(d time.Duration) time.Time { return time.Now().Add(d).UTC().Truncate(time.Second) }

func TestGrants(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, k kind) {
		s := k.open(t, newKeys(t, "a"))
		check(t, s, adaMail, store.Grant{})
		first := store.Grant{Secret: []byte("s3cret-one"), Expires: soon(time.Hour)}
		put(t, s, adaMail, first)
		put(t, s, benMail, store.Grant{Secret: []byte("s3cret-two")})
		put(t, s, adaRepo, store.Grant{Wanted: true})
		check(t, s, adaMail, first)
		check(t, s, benMail, store.Grant{Secret: []byte("s3cret-two")})
		check(t, s, adaRepo, store.Grant{Wanted: true})

		t.Run("are there after the process was killed", func(t *testing.T) {
			check(t, k.open(t, newKeys(t, "a")), adaMail, first)
		})
		t.Run("are sealed", func(t *testing.T) {
			if raw := k.raw(t); bytes.Contains(raw, []byte("s3cret")) || !bytes.Contains(raw, []byte("mail")) {
				t.Errorf("what is kept:\n%s", raw)
			}
		})
		t.Run("outlive a new key", func(t *testing.T) {
			check(t, k.open(t, newKeys(t, "b", "a")), adaMail, first)
			check(t, k.open(t, newKeys(t, "c")), adaMail, store.Grant{})
			check(t, k.open(t, newKeys(t, "c")), adaRepo, store.Grant{Wanted: true})
		})
		t.Run("stay when a change fails", func(t *testing.T) {
			refused := errors.New("refused")
			err := s.Change(t.Context(), adaMail, func(context.Context, store.Grant) (store.Grant, error) {
				return store.Grant{Secret: []byte("other")}, refused
			})
			if err != refused {
				t.Errorf("error %v, want the one of the change", err)
			}
			check(t, s, adaMail, first)
		})
		t.Run("are gone when they have expired or are taken away", func(t *testing.T) {
			put(t, s, benMail, store.Grant{Secret: []byte("old"), Expires: soon(-time.Minute)})
			check(t, s, benMail, store.Grant{})
			put(t, s, adaRepo, store.Grant{})
			check(t, s, adaRepo, store.Grant{})
		})
	})
}

func TestWantedAndLatest(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, k kind) {
		s := k.open(t, newKeys(t, "a"))
		latest := func(want store.Key, exists bool) {
			t.Helper()
			got, ok, err := s.Latest(t.Context(), "mail")
			if err != nil || ok != exists || ok && got != want {
				t.Errorf("latest is %v, %t, %v; want %v, %t", got, ok, err, want, exists)
			}
		}
		latest(store.Key{}, false)
		put(t, s, adaMail, store.Grant{Secret: []byte("x"), Wanted: true})
		put(t, s, adaRepo, store.Grant{Wanted: true})
		latest(adaMail, true)
		put(t, s, benMail, store.Grant{Secret: []byte("x")})
		latest(benMail, true)
		put(t, s, benMail, store.Grant{Secret: []byte("x"), Expires: soon(-time.Minute)})
		latest(adaMail, true)
		for caller, want := range map[string][]string{"https://idp#ada": {"mail", "repo"}, "https://idp#ben": nil} {
			got, err := s.Wanted(t.Context(), caller)
			if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s wants %v, %v; want %v", caller, got, err, want)
			}
		}
		put(t, s, adaMail, store.Grant{Secret: []byte("x")})
		if got, err := s.Wanted(t.Context(), "https://idp#ada"); err != nil || len(got) != 1 {
			t.Errorf("wanted are %v, %v", got, err)
		}
	})
}

// What is kept for a run goes when the run has ended, and nothing else does.
func TestSweepRuns(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, k kind) {
		s := k.open(t, newKeys(t, "a"))
		over, open := store.RunKey("https://idp#ada", "publish/over", "a"), store.RunKey("", "publish/open", "b")
		kept := store.Grant{Secret: []byte("x")}
		for _, key := range []store.Key{over, open, adaMail} {
			put(t, s, key, kept)
		}
		var looked []string
		sweep := func(want ...string) {
			t.Helper()
			looked = nil
			err := s.SweepRuns(t.Context(), func(_ context.Context, run string) (bool, error) {
				looked = append(looked, run)
				return run == "publish/over", nil
			})
			slices.Sort(looked)
			if err != nil || !slices.Equal(looked, want) {
				t.Errorf("looked for the runs %q, %v; want %q", looked, err, want)
			}
		}
		sweep() // they may not have been started yet
		k.age(t)
		sweep("publish/open", "publish/over")
		check(t, s, over, store.Grant{})
		check(t, s, open, kept)
		check(t, s, adaMail, kept)
		k.age(t)
		sweep("publish/open")

		away := store.RunKey("", "publish/away", "c")
		put(t, s, away, kept)
		put(t, s, over, kept)
		k.age(t)
		err := s.SweepRuns(t.Context(), func(_ context.Context, run string) (bool, error) {
			if run != "publish/over" {
				return false, errors.New("no answer")
			}
			return true, nil
		})
		if err == nil || !strings.Contains(err.Error(), "publish/away: no answer") || !strings.Contains(err.Error(), "publish/open") {
			t.Errorf("runs that cannot be looked up: %v", err)
		}
		check(t, s, over, store.Grant{})
		check(t, s, away, kept)
	})
}

// One change of a key begins after the other has ended, in whichever process.
func TestChangesFollowEachOther(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, k kind) {
		stores := []store.Grants{k.open(t, newKeys(t, "a"))}
		if t.Name() == "TestChangesFollowEachOther/postgres" { // files are for one process
			stores = append(stores, k.open(t, newKeys(t, "a")))
		}
		const each = 20
		var all sync.WaitGroup
		for _, s := range stores {
			for range each {
				all.Go(func() {
					err := s.Change(t.Context(), adaMail, func(_ context.Context, was store.Grant) (store.Grant, error) {
						return store.Grant{Secret: append(was.Secret, 'x')}, nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		check(t, stores[0], adaMail, store.Grant{Secret: bytes.Repeat([]byte("x"), each*len(stores))})
	})
}

// Replicas that start at once make the tables together.
func TestMigrationsByReplicas(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("postgres")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := store.OpenPostgres(t.Context(), url, newKeys(t, "a"), nil)
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	all.Wait()
}

func TestErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://perdure:pa55word@127.0.0.1:1/db?connect_timeout=1",
		"postgres://perdure:pa55word@127.0.0.1:x/db",
		"host=127.0.0.1 port=1 password=pa55word user=",
		"pa55word",
		"postgres://perdure:pa55word@127.0.0.1:1/db?sslmode=pa55word",
	} {
		_, err := store.OpenPostgres(t.Context(), address, newKeys(t, "a"), nil)
		if err == nil || strings.Contains(err.Error(), "pa55word") {
			t.Errorf("%s: error %v", address, err)
		}
	}
}

// A secret that was moved to another key of the store does not open.
func TestSealIsBoundToItsKey(t *testing.T) {
	t.Parallel()
	k := files(t)
	s := k.open(t, newKeys(t, "a"))
	put(t, s, adaMail, store.Grant{Secret: []byte("ada's")})
	put(t, s, benMail, store.Grant{Secret: []byte("ben's")})
	var names []string
	for _, line := range strings.Split(strings.TrimSpace(string(k.raw(t))), "\n") {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	one := perduretest.Read(t, names[0])
	perduretest.NoError(t, os.WriteFile(names[1], one, 0o600))
	ada, errAda := s.Get(t.Context(), adaMail)
	ben, errBen := s.Get(t.Context(), benMail)
	if errAda != nil || errBen != nil || (ada.Secret != nil) == (ben.Secret != nil) {
		t.Errorf("after one record was put in the place of the other: %v %v, %v %v", ada, errAda, ben, errBen)
	}
}

func TestShortKey(t *testing.T) {
	t.Parallel()
	if _, err := store.NewKeys([]byte("short")); err == nil {
		t.Error("a key of 5 bytes is taken")
	}
}

// Who only reads values changes no table, and needs no database before there is
// one to read.
func TestAttach(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("postgres")
	p := perduretest.Must(store.AttachPostgres(t.Context(), url))(t)
	defer p.Close()
	if _, err := p.Values().Get(t.Context(), "none"); err == nil || errors.Is(err, store.ErrNoValue) {
		t.Errorf("a value of a database without tables: %v", err)
	}
	if found, err := store.Inspect(t.Context(), url); err != nil || found.Version != 0 {
		t.Errorf("the tables have version %d, %v", found.Version, err)
	}
	if _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	perduretest.NoError(t, p.Values().Put(t.Context(), "one", "run", []byte("text")))
	if got, err := p.Values().Get(t.Context(), "one"); err != nil || string(got) != "text" {
		t.Errorf("got %q, %v", got, err)
	}
	away := perduretest.Must(store.AttachPostgres(t.Context(), "postgres://ada:secret@127.0.0.1:1/none"))(t)
	defer away.Close()
	if _, err := away.Values().Get(t.Context(), "one"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a value of a database that is away: %v", err)
	}
}
