package devserver

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/server/common/log/tag"
)

// The server opens its listeners in sync.OnceValue, which makes a panic of a goroutine that
// ends.
func TestFatalErrorIsReturned(t *testing.T) {
	t.Parallel()
	taken := errors.New("listen: address already in use")
	for name, of := range map[string]func(log *serverLog) error{
		"at once": func(log *serverLog) error { log.Fatal("failed", tag.Error(taken)); return nil },
		"in OnceValue": func(log *serverLog) error {
			return sync.OnceValue(func() error { log.Fatal("failed", tag.Error(taken)); return nil })()
		},
	} {
		log := newServerLog(slog.New(slog.DiscardHandler))
		if err := log.guard(func() error { return of(log) }); err == nil || !strings.Contains(err.Error(), taken.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
