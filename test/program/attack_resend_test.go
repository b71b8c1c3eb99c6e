package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/perdure/perdure/test/topology/clients"
)

// TestAttackResentAtReplicas kills the gateway of unsafe calls of 2026-07-28, and
// has their clients send them again under new ids, as the protocol tells them to:
// nothing is written twice, also where the run has ended meanwhile. What was
// delivered is not given again, at either gateway, and a client that closes its
// stream and does not come back ends its run.
func TestAttackResentAtReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, newTemporal(t), "resent", "--disconnect-grace", "1s")
	requests := 0
	call := func(ctx context.Context, gateway int, tool, key string) <-chan string {
		requests++
		id := requests
		c, result := clients.Sessionless{URL: "http://" + r.gateways[gateway].address + endpoint, Capabilities: "{}"}, make(chan string, 1)
		go func() {
			raw, err := c.Request(ctx, id, "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{"key":%q}`, tool, key))
			result <- fmt.Sprint(string(raw), err)
		}()
		return result
	}
	writes := func(key string) bool {
		all, err := os.ReadFile(r.writes.Name())
		return err == nil && strings.Contains(string(all), key+"\n")
	}
	ended := func(tool, status string) bool {
		out, err := r.perdure(t, "runs", "list", "--tool", tool, "--status", status, "-o", "json")
		var list []json.RawMessage
		return err == nil && json.Unmarshal([]byte(out), &list) == nil && len(list) > 0
	}

	// A stop that is meant.
	ctx, leave := context.WithCancel(t.Context())
	call(ctx, 1, "slow_read", "stopped")
	until(t, "the run to be under way", func() bool { return ended("slow_read", "running") })
	leave()
	until(t, "the run of the client that is gone to end", func() bool { return ended("slow_read", "cancelled") })
	r.wrote(t, "stopped")

	// A gateway that is killed in the middle of unsafe writes.
	for _, key := range []string{"under-way", "meanwhile"} {
		call(t.Context(), 0, "slow_write", key)
		until(t, "the write of "+key, func() bool { return writes(key) })
	}
	r.gateways[0].kill()
	resent := call(t.Context(), 1, "slow_write", "under-way")
	r.release()
	if got := receive(t, resent, "the call that was sent again"); !strings.Contains(got, `"attached":true`) || strings.Contains(got, `"isError":true`) {
		t.Errorf("a call whose run is under way, sent again: %s", got)
	}
	until(t, "the other run to end", func() bool {
		out, err := r.perdure(t, "runs", "list", "--tool", "slow_write", "--status", "completed", "-o", "json")
		return err == nil && strings.Count(out, `"status": "completed"`)+strings.Count(out, `"status":"completed"`) == 2
	})
	if got := receive(t, call(t.Context(), 1, "slow_write", "meanwhile"), "the other"); !strings.Contains(got, `"attached":true`) || strings.Contains(got, `"isError":true`) {
		t.Errorf("a call whose run has ended, sent again: %s", got)
	}
	r.wrote(t, "under-way", "under-way")
	r.wrote(t, "meanwhile", "meanwhile")

	// The same calls, made anew.
	r.gateways[0].start()
	for _, gateway := range []int{1, 0} {
		if got := receive(t, call(t.Context(), gateway, "slow_write", "meanwhile"), "a new call"); strings.Contains(got, `"attached":true`) {
			t.Errorf("a result that was delivered was given again by gateway %d: %s", gateway, got)
		}
	}
	r.wrote(t, "meanwhile", "meanwhile", "meanwhile", "meanwhile")
}
