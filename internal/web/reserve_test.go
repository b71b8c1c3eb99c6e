package web_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/web"
)

// TestReserve: what requests read shares the work of Bodies by caller, one thing at a time
// for each request, until that ends.
func TestReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, large = 8 << 20, 50 << 20
		b := web.NewBodies(size, 10*time.Second)
		request := func(caller string) (ctx context.Context, end func()) {
			of, end := context.WithCancel(t.Context())
			return b.Within(of, caller), end
		}
		first, endFirst := request("ann")
		second, endSecond := request("ann")
		other, endOther := request("bob")
		defer endSecond()
		for name, ctx := range map[string]context.Context{"first": first, "again": first, "other": other} {
			if err := web.Reserve(ctx, large); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		var full *web.FullError
		began := time.Now()
		if err := web.Reserve(second, large); !errors.As(err, &full) || time.Since(began) != 10*time.Second {
			t.Errorf("of one caller a second was refused with %v after %s", err, time.Since(began))
		}
		if err := web.Reserve(second, 1000); err != nil {
			t.Errorf("a small one: %v", err)
		}
		if err := web.Reserve(t.Context(), large); err != nil {
			t.Errorf("what is of no request: %v", err)
		}
		endFirst()
		endOther()
		synctest.Wait()
		if err := web.Reserve(second, large); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}
