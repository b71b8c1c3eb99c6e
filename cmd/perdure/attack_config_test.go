package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackConfigurationChangesMeanwhile edits a configuration while its servers are
// started that two commands add at once: all three changes are in the file, which is
// still behind its link.
func TestAttackConfigurationChangesMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, "perdure.yaml")
	perduretest.NoError(t, os.WriteFile(file, []byte("name: x\nbackends: []\n"), 0o600))
	perduretest.NoError(t, os.Symlink("real.yaml", link))
	names := []string{"first", "second"}
	var called sync.WaitGroup
	called.Add(len(names))
	edited := sync.OnceFunc(func() {
		called.Wait()
		if err := os.WriteFile(file, []byte("name: edited\nbackends: []\n"), 0o600); err != nil {
			t.Error(err)
		}
	})
	var done sync.WaitGroup
	for _, name := range names {
		arrive := sync.OnceFunc(called.Done)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			arrive()
			edited()
			w.WriteHeader(http.StatusBadRequest)
		}))
		t.Cleanup(server.Close)
		done.Go(func() {
			var out, errs bytes.Buffer
			add := backendAddCommand{takeOverFlags: takeOverFlags{Yes: true, Wait: time.Minute}, Name: name, Target: []string{server.URL + "/mcp"}, Config: link, Away: true}
			if err := add.Run(t.Context(), &console{in: strings.NewReader(""), out: &out, err: &errs, exact: &out, screen: &errs}); err != nil {
				t.Errorf("adding %s: %v\n%s", name, err, errs.String())
			}
		})
	}
	done.Wait()
	text, err := os.ReadFile(file)
	for _, want := range []string{"name: edited", "name: first", "name: second"} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the file (%v):\n%s", want, err, text)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
}
