package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

// Deliveries note, for all replicas, which results were delivered. What comes
// while one note is on its way goes with the next.
type deliveries struct {
	runs Runs
	log  *slog.Logger

	mu      sync.Mutex
	waiting map[string]*batch // by caller; one that is empty = a note is on its way
}

// A batch is what one note has.
type batch struct {
	all   []runs.Delivery
	noted chan struct{} // closed when it is, or cannot be
}

const (
	deliveryPause = 20 * time.Millisecond // between notes about one caller, of which a history takes 10,000
	deliveryLimit = 2 * time.Second       // that a result waits for its note
)

// add notes a delivery soon.
func (d *deliveries) add(caller string, what runs.Delivery) (noted <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[string]*batch{}
	}
	b, noting := d.waiting[caller]
	if !noting {
		b = &batch{noted: make(chan struct{})}
		d.waiting[caller] = b
		go d.note(caller)
	}
	b.all = append(b.all, what)
	return b.noted
}

// note notes what waits until there is no more.
func (d *deliveries) note(caller string) {
	for b := d.take(caller); b != nil; b = d.take(caller) {
		ctx, cancel := context.WithTimeout(context.Background(), detachedLimit)
		if err := d.runs.Deliver(ctx, caller, b.all); err != nil {
			d.log.Warn("for a while, the same calls are given these results again: their delivery could not be noted", "runs", b.all, "error", err)
		}
		cancel()
		close(b.noted)
		time.Sleep(deliveryPause)
	}
}

func (d *deliveries) take(caller string) *batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.waiting[caller]
	if len(b.all) == 0 {
		delete(d.waiting, caller)
		return nil
	}
	d.waiting[caller] = &batch{noted: make(chan struct{})}
	return b
}

// delivering notes that the result of a call is delivered, just before it is: one
// of a tool that writes. A process that is killed between the two, within
// microseconds, leaves a result that counts as delivered and is not; the other
// way round, one that is killed while the note is made would have its last results
// given again. Nothing is repeated where tools only read: there the note may come
// later, and nobody waits for it.
func (g *Gateway) delivering(ctx context.Context, x *exchange, id runs.RunID) {
	if !x.receipts || !x.writes || ctx.Err() != nil {
		return
	}
	x.noted = true
	select {
	case <-g.deliveries.add(x.principal, runs.Delivery{Run: id}):
	case <-time.After(deliveryLimit):
	case <-ctx.Done():
	}
}
