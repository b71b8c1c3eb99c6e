package backends

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// What is forwarded of a request is held for as long as its call: nothing of the many
// other things that its client has put into _meta. (Not parallel: it looks at all memory
// of this process.)
func TestAttackForwardedMeta(t *testing.T) {
	var params strings.Builder
	params.WriteString(`{"_meta":{"example.com/tenant":"a"`)
	for i := range 200_000 {
		fmt.Fprintf(&params, `,"k%d":1`, i)
	}
	params.WriteString(`}}`)
	request := json.RawMessage(params.String())
	before := perduretest.Heap()
	got, err := Forwarding{Meta: []string{"example.com/*"}}.Of(nil, request)
	held := perduretest.Heap() - before
	if err != nil || len(got.Meta) != 1 || string(got.Meta["example.com/tenant"]) != `"a"` {
		t.Errorf("forwarded: %v, %v", got.Meta, err)
	}
	if held > 1<<20 {
		t.Errorf("one value of a request of %d KB holds %d KB", len(request)>>10, held>>10)
	}
	runtime.KeepAlive(request)
	runtime.KeepAlive(got)
}

// A header that the configuration gives a backend is not replaced by one that a caller sends,
// however both are written.
func TestAttackForwardedOverConfigured(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	h := &hostile{call: func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		seen <- r.Header
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
	}}
	config := httpConfig(serve(t, h).URL)
	config.Headers = Headers{"x-tenant": "ours"}
	config.Credentials = fixed{"x-key": "our key"}
	p := open(t, config)
	for range 20 { // a map has no order
		caller := Caller{Forwarded: Forwarded{Headers: Headers{"X-Tenant": "theirs", "X-Key": "their key", "X-Other": "theirs"}}}
		if _, err := callGo(t, p, Call{Caller: caller}); err != nil {
			t.Fatal(err)
		}
		got := <-seen
		if got.Get("X-Tenant") != "ours" || got.Get("X-Key") != "our key" || got.Get("X-Other") != "theirs" {
			t.Fatalf("the backend got %v", got)
		}
	}
}

// A call without headers has none of a call beside it, with which it shares the session.
func TestAttackHeadersOfACallBeside(t *testing.T) {
	t.Parallel()
	var others, calls atomic.Int64
	h := &hostile{call: func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		calls.Add(1)
		if r.Header.Get("Baggage") != "" {
			others.Add(1)
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
	}}
	p := open(t, httpConfig(serve(t, h).URL))
	const each = 1000
	var callers sync.WaitGroup
	for _, caller := range []Caller{{}, {Forwarded: Forwarded{Headers: Headers{"Baggage": "user=ada"}}}} {
		callers.Go(func() {
			for range each {
				if _, err := callGo(t, p, Call{Caller: caller}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	if n := others.Load(); n != each {
		t.Errorf("%d of %d calls had the header that %d have sent", n, calls.Load(), each)
	}
}
