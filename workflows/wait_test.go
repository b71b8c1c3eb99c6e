package workflows

import (
	"testing"
	"time"
)

// A wait that ends after the timeout of its run shows when the time is over.
func TestWaitBeyondTheTimeout(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	const plain = "waits until 2026-11-26T12:00:00Z"
	for end, want := range map[time.Time]string{
		{}:                    plain,
		until:                 plain,
		until.Add(-time.Hour): plain + ", after its time is over at 2026-11-26T11:00:00Z",
	} {
		if got := waitsUntil(until, end); got != want {
			t.Errorf("until %s, ends %s: %q, want %q", until, end, got, want)
		}
	}
}
