package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/test/pgtest"
)

// forEachValues runs a test against every kind of Values. later makes as if an
// hour had passed for all that is kept.
func forEachValues(t *testing.T, f func(t *testing.T, open func() store.Values, later func())) {
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "values")
		f(t, func() store.Values {
			v := perduretest.Must(store.OpenFileValues(dir))(t)
			return v
		}, func() {
			marks, err := filepath.Glob(filepath.Join(dir, "*", "run"))
			past := time.Now().Add(-2 * time.Hour)
			for _, m := range marks {
				err = errors.Join(err, os.Chtimes(m, past, past))
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		address := pgtest.Start(t).URL("postgres")
		f(t, func() store.Values {
			p, err := store.OpenPostgres(t.Context(), address, nil, testLogger(t))
			opened(t, p, err)
			return p.Values()
		}, func() {
			c := perduretest.Must(pgx.Connect(t.Context(), address))(t)
			defer c.Close(context.Background())
			if _, err := c.Exec(t.Context(), "update perdure.run_values set checked = checked - interval '2 hours'"); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// TestValues shows that a value is there until its run is gone, for whoever
// opens the store, and that nothing young is asked about.
func TestValues(t *testing.T) {
	t.Parallel()
	forEachValues(t, func(t *testing.T, open func() store.Values, later func()) {
		values := open()
		large := bytes.Repeat([]byte("x\x00"), 1<<20)
		for _, v := range []struct {
			id, run string
			data    []byte
		}{{"a1", "a/1", large}, {"a2", "a/1", []byte("2")}, {"b1", "b/1", []byte("3")}, {"a1", "a/1", large}} {
			perduretest.NoError(t, values.Put(t.Context(), v.id, v.run, v.data))
		}
		has := func(id string, want []byte) {
			t.Helper()
			got, err := open().Get(t.Context(), id)
			if want == nil && !errors.Is(err, store.ErrNoValue) || want != nil && (err != nil || !bytes.Equal(got, want)) {
				t.Errorf("%s is %d bytes, %v", id, len(got), err)
			}
		}
		var asked []string
		aIsGone := func(_ context.Context, run string) (bool, string, error) {
			asked = append(asked, run)
			return run == "a/1", "", nil
		}
		sweep := func(want int, wantAsked ...string) {
			t.Helper()
			asked = nil
			swept, err := open().Sweep(t.Context(), aIsGone)
			slices.Sort(asked)
			if err != nil || swept != want || !slices.Equal(asked, wantAsked) {
				t.Errorf("swept are %d, asked %v, %v; want %d, %v", swept, asked, err, want, wantAsked)
			}
		}
		sweep(0)
		has("a1", large)
		later()
		sweep(1, "a/1", "b/1")
		has("a1", nil)
		has("a2", nil)
		has("b1", []byte("3"))
		has("none", nil)
		sweep(0) // b/1 was asked about a moment ago
		later()
		away := errors.New("Temporal is away")
		if _, err := values.Sweep(t.Context(), func(context.Context, string) (bool, string, error) { return true, "", away }); !errors.Is(err, away) {
			t.Errorf("a sweep that cannot ask: %v", err)
		}
		has("b1", []byte("3"))
	})
}

// TestValuesOfCalledRuns shows that what a called run was given and has given is
// there until the run that has called it is gone as well.
func TestValuesOfCalledRuns(t *testing.T) {
	t.Parallel()
	forEachValues(t, func(t *testing.T, open func() store.Values, later func()) {
		values := open()
		gone := map[string]bool{}
		look := func(_ context.Context, run string) (bool, string, error) {
			if run == "child/1" {
				return gone[run], "parent/1", nil
			}
			return gone[run], "", nil
		}
		put := func(id, run string) {
			t.Helper()
			perduretest.NoError(t, values.Put(t.Context(), id, run, []byte(id)))
		}
		sweep := func(want int) {
			t.Helper()
			later()
			if swept, err := open().Sweep(t.Context(), look); err != nil || swept != want {
				t.Errorf("swept are %d, %v; want %d", swept, err, want)
			}
		}
		put("c1", "child/1")
		put("p1", "parent/1")
		put("o1", "other/1")
		sweep(0)
		put("c2", "child/1")
		gone["child/1"], gone["other/1"] = true, true
		sweep(1)
		for _, id := range []string{"c1", "c2", "p1"} {
			if _, err := open().Get(t.Context(), id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		gone["parent/1"] = true
		sweep(2)
		for _, id := range []string{"c1", "c2", "p1", "o1"} {
			if _, err := open().Get(t.Context(), id); !errors.Is(err, store.ErrNoValue) {
				t.Errorf("%s is still there: %v", id, err)
			}
		}
	})
}
