package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/runs"
)

// Deliveries are results that were delivered and of which no other replica knows
// yet. Those that follow each other closely are noted together.
type deliveries struct {
	runs Runs
	log  *slog.Logger

	mu      sync.Mutex
	waiting map[string][]runs.RunID // by caller; a key without runs = some were noted a moment ago
}

const (
	deliveryPause = 200 * time.Millisecond // between notes of one caller's deliveries
	maxDeliveries = 1000                   // in one note
)

func (d *deliveries) add(caller string, id runs.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[string][]runs.RunID{}
	}
	_, noting := d.waiting[caller]
	d.waiting[caller] = append(d.waiting[caller], id)
	if !noting {
		go d.note(caller)
	}
}

// note notes a caller's deliveries until there are no more.
func (d *deliveries) note(caller string) {
	for {
		ids := d.take(caller)
		if len(ids) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), detachedLimit)
		if err := d.runs.Deliver(ctx, caller, ids); err != nil {
			d.log.Warn("the same calls are given these results again, for a while: their delivery could not be noted", "runs", ids, "error", err)
		}
		cancel()
		time.Sleep(deliveryPause)
	}
}

func (d *deliveries) take(caller string) []runs.RunID {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := d.waiting[caller]
	n := min(len(ids), maxDeliveries)
	if n == 0 {
		delete(d.waiting, caller)
		return nil
	}
	d.waiting[caller] = ids[n:]
	return ids[:n:n]
}
