//go:build !nodev

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/store"
)

// TestSecondDev: a dev whose address another one with the same data has says so.
func TestSecondDev(t *testing.T) {
	t.Parallel()
	l := perduretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	address, dir := l.Addr().String(), t.TempDir()
	d := devCommand{Data: dir, Listen: &address}
	if _, err := d.listen(); err == nil || !strings.Contains(err.Error(), "set another address with --listen") {
		t.Errorf("an address that is taken: %v", err)
	}
	lock := perduretest.Must(store.LockData(dir))(t)
	defer lock.Release()
	perduretest.NoError(t, os.WriteFile(devFilePath(dir), []byte(fmt.Sprintf(`{"pid": %d, "mcp": "http://x/mcp"}`, os.Getpid())), 0o600))
	if _, err := d.listen(); err == nil || !strings.Contains(err.Error(), "perdure dev at http://x/mcp; use that one, stop it") {
		t.Errorf("the address of a dev with the same data: %v", err)
	}
}

// TestOnlyCommandOfAGroup: approvals alone opens the page.
func TestOnlyCommandOfAGroup(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"approvals", "approvals deploy/x", "approvals open"} {
		var errs bytes.Buffer
		c := &console{out: &errs, err: &errs}
		args := append(strings.Fields(line), "--data", t.TempDir())
		if status := run(t.Context(), args, c); status != 1 || !strings.Contains(errs.String(), "no perdure dev is running") {
			t.Errorf("perdure %s: status %d, %s", line, status, errs.String())
		}
	}
}
