package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackComputing has one caller send scripts that take long to check, many at once.
// One of somebody else has its turn among the first all the same.
func TestAttackComputing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed}, func(o *gateway.Options) { o.Scripts = true })
	var script strings.Builder
	for i := range 500 {
		fmt.Fprintf(&script, "abcd%04dx=1\nzbce%04d()\n", i, i)
	}
	arguments := perduretest.Must(json.Marshal(map[string]string{"script": script.String()}))(t)
	check := func(caller string) {
		c := &wire{T: t, url: w.url, caller: caller}
		text := string(c.modernCall("perdure_script_check", string(arguments), `{}`, "").messageText())
		if !strings.Contains(text, "zbce0001") && !(caller == "ann" && strings.Contains(text, "try again")) {
			t.Errorf("%s: %.300s", caller, text)
		}
	}
	const many = 24
	var begun, done atomic.Int64
	var all sync.WaitGroup
	for range many {
		all.Go(func() { begun.Add(1); check("ann"); done.Add(1) })
	}
	for begun.Load() < many {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // so that they have been sent
	before := done.Load()
	check("bob")
	if ahead := done.Load() - before; ahead > many/4 {
		t.Errorf("%d of %d requests of another caller were answered before", ahead, many)
	}
	all.Wait()
}
