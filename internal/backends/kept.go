package backends

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"
)

// Listings keep what backends have listed last, for processes that start while one is
// away. They are safe for concurrent use.
type Listings interface {
	// Last gives what Keep was given last for a backend; nil = nothing.
	Last(ctx context.Context, backend string) ([]byte, error)
	Keep(ctx context.Context, backend string, listed []byte) error
}

const (
	// recallAfter is how long the first try to connect may take before what the backend
	// listed last counts. A gateway that starts opens after 10 s.
	recallAfter = 5 * time.Second
	// keepAgain is how often an unchanged list is kept again: stores forget what is old.
	keepAgain    = 24 * time.Hour
	listingLimit = 10 * time.Second // of the store
)

// recall takes over what a backend listed last, unless it has answered.
func (b *backend) recall(ctx context.Context) {
	if b.listings == nil || b.offered() != nil || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listingLimit)
	defer cancel()
	text, err := b.listings.Last(ctx, b.cfg.Name)
	var listed []listedTool
	if err == nil && text != nil {
		err = json.Unmarshal(text, &listed)
	}
	if err != nil {
		b.logger.Warn("cannot read which tools the backend listed last", "error", err)
	}
	if err != nil || text == nil {
		return
	}
	tools, _ := b.cfg.toolsOf(listed)
	b.mu.Lock()
	recalled := b.tools == nil
	if recalled {
		b.tools = b.rules.classify(tools)
	}
	b.mu.Unlock()
	if recalled {
		b.logger.Info("backend does not answer; its tools are those that it listed last", "tools", len(tools))
		b.published()
	}
}

// keep has a list kept in the background. It is called by the supervisor alone.
func (b *backend) keep(listed []listedTool) {
	if b.listings == nil {
		return
	}
	select {
	case <-b.listed:
	default:
	}
	b.listed <- listed
}

// keepListings keeps what is listed, until ctx ends. What cannot be kept is tried again
// with the next list.
func (b *backend) keepListings(ctx context.Context) {
	var kept [sha256.Size]byte
	var at time.Time
	for {
		var listed []listedTool
		select {
		case listed = <-b.listed:
		case <-ctx.Done():
			return
		}
		text, err := json.Marshal(listed)
		sum := sha256.Sum256(text)
		if err != nil || sum == kept && time.Since(at) < keepAgain {
			continue
		}
		if err := b.keepNow(ctx, text); err != nil {
			b.logger.Warn("cannot keep which tools the backend lists", "error", err)
			continue
		}
		kept, at = sum, time.Now()
	}
}

func (b *backend) keepNow(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, listingLimit)
	defer cancel()
	return b.listings.Keep(ctx, b.cfg.Name, text)
}
