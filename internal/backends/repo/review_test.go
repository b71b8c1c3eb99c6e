package repo

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/perdure/perdure/internal/perduretest"
)

func TestWriteReview(t *testing.T) {
	t.Parallel()
	f := newRepo(t)
	args := func(name, body string, overwrite bool) map[string]any {
		return map[string]any{"name": name, "title": "A\ntitle", "body": body, "overwrite": overwrite}
	}
	content := func() string {
		data := perduretest.Read(t, filepath.Join(f.dir, ".perdure/reviews/r1.md"))
		return string(data)
	}
	got := get[reviewResult](f, "write_review", args("r1", "Fine.\n\n", false))
	want := reviewResult{Path: ".perdure/reviews/r1.md", Bytes: len("# A title\n\nFine.\n")}
	if diff := cmp.Diff(want, got); diff != "" || content() != "# A title\n\nFine.\n" {
		t.Errorf("%q, %s", content(), diff)
	}
	f.refuse("write_review", args("r1", "Other", false), "overwrite")
	if content() != "# A title\n\nFine.\n" {
		t.Errorf("a refused write changed the review to %q", content())
	}
	if got := get[reviewResult](f, "write_review", args("r1", "Other", true)); !got.Overwritten || content() != "# A title\n\nOther\n" {
		t.Errorf("%+v, %q", got, content())
	}
	for _, name := range []string{"", "../x", "a/b", ".hidden", "-x", "x\n", strings.Repeat("x", 101)} {
		f.refuse("write_review", args(name, "x", false), "name")
	}
	entries, err := os.ReadDir(filepath.Join(f.dir, ".perdure/reviews"))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the review there is %v, %v", entries, err)
	}
}

func TestWriteReviewStaysInside(t *testing.T) {
	t.Parallel()
	f := newRepo(t)
	outside := t.TempDir()
	perduretest.NoError(t, os.Symlink(outside, filepath.Join(f.dir, ".perdure")))
	f.refuse("write_review", map[string]any{"name": "r", "title": "t", "body": "b"}, "directory for reviews")
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("written outside: %v", entries)
	}
}

// Of many writers of one review exactly one writes it.
func TestWriteReviewRace(t *testing.T) {
	t.Parallel()
	f := newRepo(t)
	var wg sync.WaitGroup
	wrote := make(chan bool, 20)
	for range cap(wrote) {
		wg.Go(func() {
			wrote <- !f.call("write_review", map[string]any{"name": "r", "title": "t", "body": "b"}).IsError
		})
	}
	wg.Wait()
	close(wrote)
	n := 0
	for ok := range wrote {
		if ok {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of 20 wrote the review", n)
	}
}

func TestCheckup(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	got := get[checkupResult](f, "checkup", nil)
	if !got.Healthy || got.Refs != 2 || got.Objects == 0 || len(got.Phases) != 3 {
		t.Errorf("%+v", got)
	}
	blob := run(t, f.dir, "rev-parse", "HEAD:README.md")
	perduretest.NoError(t, os.Remove(filepath.Join(f.dir, ".git/objects", blob[:2], blob[2:])))
	got = get[checkupResult](f, "checkup", nil)
	if got.Healthy || !strings.Contains(strings.Join(got.Problems, "\n"), blob) {
		t.Errorf("with a missing object: %+v", got)
	}
	f.refuse("checkup", map[string]any{"pause_seconds": 61}, "pause_seconds")
}

func TestCheckupProgressAndCancel(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	r := &repository{top: f.dir}
	var told []float64
	if _, err := r.checkup(t.Context(), checkupArgs{}, func(done, total float64, _ string) {
		if total != 3 {
			t.Errorf("total %v", total)
		}
		told = append(told, done)
	}); err != nil {
		t.Fatal(err)
	}
	if len(told) < 6 || !slices.IsSorted(told) || told[len(told)-1] != 3 {
		t.Errorf("progress %v", told)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.checkup(ctx, checkupArgs{PauseSeconds: 60}, func(float64, float64, string) {}); err == nil {
		t.Error("a cancelled checkup has a result")
	}
}

// Serve speaks MCP over a pair of pipes and ends when its input does.
func TestServe(t *testing.T) {
	t.Parallel()
	f := withHistory(t)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), f.dir, inR, outW)
		outW.Close()
	}()
	f.client = client.NewClient(transport.NewIO(outR, inW, io.NopCloser(strings.NewReader(""))))
	initialize(t, f.client)
	if got := get[infoResult](f, "info", nil); got.Commits != 3 {
		t.Errorf("%+v", got)
	}
	inW.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
