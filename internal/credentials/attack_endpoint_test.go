package credentials_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/store"
)

// busyGrants count the changes under way. Each holds a connection of the database.
type busyGrants struct {
	store.Grants
	underWay, most atomic.Int64
}

func (b *busyGrants) Change(ctx context.Context, key store.Key, f func(context.Context, store.Grant) (store.Grant, error)) error {
	b.most.Store(max(b.most.Load(), b.underWay.Add(1)))
	defer b.underWay.Add(-1)
	return b.Grants.Change(ctx, key, f)
}

// A token endpoint that hangs takes a few connections of the store, however many callers come,
// and leaves the others for what needs no token.
func TestAttackTokenEndpointHangs(t *testing.T) {
	t.Parallel()
	l := newLab(t, exchanging)
	grants, err := store.OpenFiles(t.TempDir(), newKeys(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(grants.Close)
	busy := &busyGrants{Grants: grants}
	broker, err := credentials.New(credentials.Options{Strategies: map[string]credentials.Strategy{"be": exchanging(l)}, Grants: busy})
	if err != nil {
		t.Fatal(err)
	}
	hangs := make(chan struct{})
	l.idp.answers(func(url.Values, string, string) (int, string) { <-hangs; return 503, "" })
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for i := range 50 {
		who := backends.Caller{Name: fmt.Sprint("caller ", i), Token: backends.Secret(fmt.Sprint("token ", i))}
		callers.Go(func() { broker.Deposit(ctx, who, []string{"be"}) })
	}
	for busy.underWay.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	_, drop, err := broker.KeepForwarded(ctx, "ann", "run/1", backends.Forwarded{Headers: backends.Headers{"X-Tenant": "a"}})
	if err != nil {
		t.Errorf("what needs no token: %v", err)
	}
	drop()
	time.Sleep(100 * time.Millisecond) // all who may have begun
	if n := busy.most.Load(); n > 6 {
		t.Errorf("%d changes were under way at once", n)
	}
	cancel()
	close(hangs)
	callers.Wait()
}

func newKeys(t *testing.T) *store.Keys {
	t.Helper()
	keys, err := store.NewKeys(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
