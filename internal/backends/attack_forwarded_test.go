package backends

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
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
