package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
	"github.com/perdure/perdure/test/pgtest"
)

// A registryKind opens a registry again and again in the same place.
type registryKind struct {
	open func(t *testing.T) store.Registry
	// processes is how many may have it open at once.
	processes int
}

// forEachRegistry runs a test against every kind of registry, empty.
func forEachRegistry(t *testing.T, f func(t *testing.T, k registryKind)) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "registry.jsonl")
		f(t, registryKind{func(t *testing.T) store.Registry { return openFile(t, file) }, 1})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.Start(t).URL("postgres")
		f(t, registryKind{func(t *testing.T) store.Registry { return openDatabase(t, url) }, 2})
	})
}

func openFile(t *testing.T, file string) store.Registry {
	t.Helper()
	r := perduretest.Must(store.OpenRegistryFile(file))(t)
	t.Cleanup(r.Close)
	return r
}

func openDatabase(t testing.TB, url string) store.Registry {
	t.Helper()
	p := perduretest.Must(store.OpenPostgres(t.Context(), url, nil, testLogger(t)))(t)
	t.Cleanup(p.Close)
	return p.Registry()
}

// The source has what JSON could be written otherwise for.
func version(name, number string) store.Version {
	return store.Version{
		Name: name, Version: number, Digest: "sha256:" + name + number, Source: `{"description":"<a> & é",  "name":"` + name + `"}`,
		Lock: `[{"tool":"x<y"}]`,
	}
}

func published(v store.Version) store.Edit { return store.Edit{Action: store.Published, Version: v} }

// apply makes edits whatever there is.
func apply(t testing.TB, r store.Registry, by string, edits ...store.Edit) {
	t.Helper()
	if err := r.Edit(t.Context(), by, store.Mark{}, func(store.News) ([]store.Edit, error) { return edits, nil }); err != nil {
		t.Fatal(err)
	}
}

func versionsAfter(t testing.TB, r store.Registry, after store.Mark) ([]store.Version, store.Mark) {
	t.Helper()
	news, err := r.Versions(t.Context(), after)
	if err != nil || news.Anew {
		t.Fatal(news, err)
	}
	return news.Versions, news.Last
}

func numbers(versions []store.Version) string {
	var all []string
	for _, v := range versions {
		all = append(all, v.Name+"@"+v.Version)
	}
	return strings.Join(all, " ")
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	forEachRegistry(t, func(t *testing.T, k registryKind) {
		r := k.open(t)
		if all, last := versionsAfter(t, r, store.Mark{}); len(all) != 0 || last.Seq != 0 {
			t.Errorf("an empty registry has %v after %v", all, last)
		}
		apply(t, r, "ada", published(version("b", "1.0.0")), published(version("a", "1.0.0")))
		_, two := versionsAfter(t, r, store.Mark{})
		apply(t, r, "ben", published(version("a", "1.1.0")))
		old := store.Edit{Action: store.Deprecated, Version: store.Version{Name: "b", Version: "1.0.0", Deprecated: "use a"}, Note: "it is slow"}
		apply(t, r, "ben", old)

		t.Run("gives back what was published, to the byte", func(t *testing.T) {
			all, _ := versionsAfter(t, r, store.Mark{})
			if len(all) != 3 || all[0].At.IsZero() {
				t.Fatalf("all are %+v", all)
			}
			want := []store.Version{version("a", "1.0.0"), version("a", "1.1.0"), version("b", "1.0.0")}
			want[0].By, want[1].By, want[2].By, want[2].Deprecated = "ada", "ben", "ada", "use a"
			if diff := cmp.Diff(want, all, cmpopts.IgnoreFields(store.Version{}, "At")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
		t.Run("gives what has changed since", func(t *testing.T) {
			changed, last := versionsAfter(t, r, two)
			if got := numbers(changed); got != "a@1.1.0 b@1.0.0" {
				t.Errorf("changed is %s", got)
			}
			if changed, same := versionsAfter(t, r, last); len(changed) != 0 || same != last {
				t.Errorf("after the last entry, %v, there is %v up to %v", last, changed, same)
			}
		})
		t.Run("knows who did what", func(t *testing.T) {
			events, err := r.History(t.Context(), "b", 10)
			if err != nil || len(events) != 2 {
				t.Fatalf("history of b: %+v, %v", events, err)
			}
			want := store.Event{By: "ben", Action: store.Deprecated, Name: "b", Version: "1.0.0", Note: "it is slow"}
			if diff := cmp.Diff(want, events[0], cmpopts.IgnoreFields(store.Event{}, "At", "Seq")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if events[0].Seq <= events[1].Seq || events[1].At.IsZero() {
				t.Errorf("history is not in order: %+v", events)
			}
			if all, err := r.History(t.Context(), "", 3); err != nil || len(all) != 3 {
				t.Errorf("the last three are %+v, %v", all, err)
			}
		})
		t.Run("makes all edits or none", func(t *testing.T) {
			for _, edits := range [][]store.Edit{
				{published(version("c", "1.0.0")), published(version("a", "1.0.0"))},
				{published(version("c", "1.0.0")), {Action: store.Deprecated, Version: version("a", "9.0.0")}},
			} {
				err := r.Edit(t.Context(), "ada", store.Mark{}, func(store.News) ([]store.Edit, error) { return edits, nil })
				if err == nil {
					t.Errorf("%v is taken", edits)
				}
			}
			refused := errors.New("refused")
			err := r.Edit(t.Context(), "ada", store.Mark{}, func(store.News) ([]store.Edit, error) {
				return []store.Edit{published(version("c", "1.0.0"))}, refused
			})
			if err != refused {
				t.Errorf("error %v, want the one of f", err)
			}
			if all, _ := versionsAfter(t, r, store.Mark{}); numbers(all) != "a@1.0.0 a@1.1.0 b@1.0.0" {
				t.Errorf("there are %s", numbers(all))
			}
		})
		t.Run("is there after the process was killed", func(t *testing.T) {
			again := k.open(t)
			before, last := versionsAfter(t, r, store.Mark{})
			after, same := versionsAfter(t, again, store.Mark{})
			if diff := cmp.Diff(before, after); diff != "" || last != same {
				t.Errorf("%v, %v (-before +after)\n%s", last, same, diff)
			}
		})
	})
}

// Fifty publish at once, each the number after the highest that it is shown:
// none is lost and none comes twice.
func TestFiftyPublishers(t *testing.T) {
	t.Parallel()
	forEachRegistry(t, func(t *testing.T, k registryKind) {
		var registries []store.Registry
		for range k.processes {
			registries = append(registries, k.open(t))
		}
		const publishers = 50
		var all sync.WaitGroup
		for i := range publishers {
			r := registries[i%len(registries)]
			all.Go(func() {
				known, err := r.Versions(t.Context(), store.Mark{})
				if err != nil {
					t.Error(err)
					return
				}
				err = r.Edit(t.Context(), fmt.Sprint(i), known.Last, func(more store.News) ([]store.Edit, error) {
					return []store.Edit{published(version("a", fmt.Sprintf("1.%d.0", len(known.Versions)+len(more.Versions))))}, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		versions, last := versionsAfter(t, registries[0], store.Mark{})
		seen := map[string]bool{}
		for _, v := range versions {
			seen[v.Version] = true
		}
		for i := range publishers {
			if !seen[fmt.Sprintf("1.%d.0", i)] {
				t.Errorf("1.%d.0 is missing among %s", i, numbers(versions))
			}
		}
		if len(versions) != publishers || last.Seq < publishers {
			t.Errorf("there are %d versions, up to entry %v", len(versions), last)
		}
		events, err := registries[0].History(t.Context(), "a", 2*publishers)
		if err != nil || len(events) != publishers {
			t.Errorf("the history has %d entries, %v", len(events), err)
		}
	})
}

// follow gives what a follower sees.
func follow(t testing.TB, r store.Registry) <-chan string {
	ctx, stop := context.WithCancel(t.Context())
	seen, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		r.Follow(ctx, func() {
			if all, err := r.Versions(ctx, store.Mark{}); err == nil {
				seen <- numbers(all.Versions)
			}
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	return seen
}

func await(t testing.TB, seen <-chan string, want string) {
	t.Helper()
	for {
		select {
		case got := <-seen:
			if got == want {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("%s was not seen", want)
		}
	}
}

func TestFollowRegistry(t *testing.T) {
	t.Parallel()
	forEachRegistry(t, func(t *testing.T, k registryKind) {
		here := k.open(t)
		there := here
		if k.processes > 1 {
			there = k.open(t)
		}
		seen := follow(t, there)
		await(t, seen, "")
		apply(t, here, "ada", published(version("a", "1.0.0")))
		await(t, seen, "a@1.0.0")
		apply(t, here, "ada", published(version("a", "1.1.0")))
		await(t, seen, "a@1.0.0 a@1.1.0")
	})
}

// followed is a registry of a database of its own, what a follower tells of it,
// and another connection to the database.
func followed(t *testing.T) (store.Registry, <-chan string, *pgx.Conn) {
	t.Helper()
	url := pgtest.Start(t).URL("postgres")
	r := openDatabase(t, url)
	seen := follow(t, r)
	await(t, seen, "")
	c := perduretest.Must(pgx.Connect(t.Context(), url))(t)
	t.Cleanup(func() { c.Close(context.Background()) })
	return r, seen, c
}

// A follower whose connection is cut goes on with another one.
func TestFollowerReconnects(t *testing.T) {
	t.Parallel()
	r, seen, c := followed(t)
	cut, err := c.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%'")
	if err != nil || cut.RowsAffected() != 1 {
		t.Fatalf("cut %d connections, %v", cut.RowsAffected(), err)
	}
	apply(t, r, "ada", published(version("a", "1.0.0")))
	await(t, seen, "a@1.0.0")
	apply(t, r, "ada", published(version("a", "1.1.0")))
	await(t, seen, "a@1.0.0 a@1.1.0")
}

// A publication of which no notification arrives, as behind a pooler that passes
// none on, is found by looking.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	_, seen, c := followed(t)
	v := version("a", "1.0.0") // as Edit writes it, and tells nobody
	_, err := c.Exec(t.Context(), `with event as (insert into registry_history (by, action, name, version, digest) values ('ada', 'published', $1, $2, $3) returning seq)
		insert into published (name, version, digest, source, lock, published_by, published_at, changed) select $1, $2, $3, $4, $5, 'ada', now(), seq from event`,
		v.Name, v.Version, v.Digest, v.Source, v.Lock)
	if err != nil {
		t.Fatal(err)
	}
	await(t, seen, "a@1.0.0")
}

// BenchmarkPickUp is how long it takes from the beginning of a publication at one
// process until two others have read it, on one PostgreSQL.
func BenchmarkPickUp(b *testing.B) {
	url := pgtest.Start(b).URL("postgres")
	here := openDatabase(b, url)
	var gateways []<-chan string
	for range 2 {
		gateways = append(gateways, follow(b, openDatabase(b, url)))
	}
	for _, seen := range gateways {
		await(b, seen, "")
	}
	var all []string
	for i := 0; b.Loop(); i++ {
		number := fmt.Sprintf("1.0.%d", i)
		all = append(all, "a@"+number)
		apply(b, here, "ada", published(version("a", number)))
		for _, seen := range gateways {
			await(b, seen, strings.Join(all, " "))
		}
	}
}

// Not even who has the database open changes what is published.
func TestDatabaseKeepsWhatIsPublished(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).URL("postgres")
	apply(t, openDatabase(t, url), "ada", published(version("a", "1.0.0")))
	c := perduretest.Must(pgx.Connect(t.Context(), url))(t)
	defer c.Close(context.Background())
	for _, statement := range []string{
		"update perdure.published set source = '{}'", "update perdure.published set version = '1.0.1'", "delete from perdure.published",
	} {
		if _, err := c.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "never changes") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func TestDamagedRegistryFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "registry.jsonl")
	first := openFile(t, file)
	apply(t, first, "ada", published(version("a", "1.0.0")))
	apply(t, first, "ada", published(version("a", "1.1.0")))
	text := perduretest.Read(t, file)
	write := func(text []byte) {
		t.Helper()
		perduretest.NoError(t, os.WriteFile(file, text, 0o600))
	}
	write(text[:len(text)-5])
	r := openFile(t, file)
	if all, _ := versionsAfter(t, r, store.Mark{}); numbers(all) != "a@1.0.0" {
		t.Errorf("after a line was cut there are %s", numbers(all))
	}
	apply(t, r, "ada", published(version("a", "2.0.0")))
	if all, _ := versionsAfter(t, openFile(t, file), store.Mark{}); numbers(all) != "a@1.0.0 a@2.0.0" {
		t.Errorf("after it was written over there are %s", numbers(all))
	}
	write(slices.Concat([]byte("{\n"), bytes.TrimPrefix(text, []byte("{"))))
	if _, err := store.OpenRegistryFile(file); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a damaged file is opened: %v", err)
	}
}
