package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// stuck are runs that cannot be cancelled, as when Temporal does not answer.
type stuck struct {
	gateway.Runs
	waiting atomic.Int64
}

func (s *stuck) Cancel(ctx context.Context, _ runs.RunID, _ string) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	<-ctx.Done()
	return ctx.Err()
}

// TestAttackStdioCancelFlood: what a client cancels is looked for on the side, and takes no
// more of the process than as many requests, however many it sends.
func TestAttackStdioCancelFlood(t *testing.T) {
	t.Parallel()
	const most = 10
	all := &stuck{}
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) {
		all.Runs = o.Runs
		o.Runs, o.Quotas.Requests = all, most
	})
	in, out, _ := pipe(t, w)
	say, hear := lines(t, in, out)
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	hear()
	for i := range 500 {
		say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"r"}}`, 1000+i))
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	hear()
	time.Sleep(100 * time.Millisecond)
	if n := all.waiting.Load(); n > most {
		t.Errorf("%d cancellations are under way, want %d at most", n, most)
	}
}

// TestAttackLongErrors: why a client cannot ask its user is in the log, and as large as it
// likes only in its own message.
func TestAttackLongErrors(t *testing.T) {
	t.Parallel()
	var logged atomic.Int64
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) {
		o.Patience = time.Second
		o.Logger = slog.New(slog.NewTextHandler(counting(func(n int) { logged.Add(int64(n)) }), nil))
	})
	in, out, _ := pipe(t, w)
	say, hear := lines(t, in, out)
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + canAsk + `,"clientInfo":{"name":"x","version":"1"}}}`)
	hear()
	say(callBody("1", "gated", `{"n":1}`, ""))
	m := hear()
	for m.Method != "elicitation/create" {
		m = hear()
	}
	say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":1,"message":"` + strings.Repeat("x", 1<<20) + `"}}`)
	for string(m.ID) != "1" {
		m = hear()
	}
	if n := logged.Load(); n == 0 || n > 64<<10 {
		t.Errorf("%d bytes were logged", n)
	}
}

// counting tells how many bytes are written.
type counting func(n int)

func (c counting) Write(p []byte) (int, error) {
	c(len(p))
	return len(p), nil
}

var _ io.Writer = counting(nil)
