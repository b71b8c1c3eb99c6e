package workflows_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// A definition is compiled when a worker first meets its source, and not for each call.
func TestCompiledOncePerSource(t *testing.T) {
	t.Parallel()
	one := workflows.Pinned{Name: "a", Digest: "sha256:1", Source: []byte(`{"name":"a","description":"d","steps":[{"id":"s","tool":"t"}]}`)}
	other := one
	other.Source = []byte(`{"name":"a","description":"d","steps":[{"id":"s","tool":"other"}]}`)
	compile := workflows.NewCompiler()
	first := perduretest.Must(compile(one))(t)
	for range 3 {
		if again, err := compile(one); err != nil || again != first {
			t.Fatalf("the same source gives another program, %v", err)
		}
	}
	if changed, err := compile(other); err != nil || changed == first {
		t.Errorf("another source gives the same program, %v", err)
	}
	one.Source, one.Digest = []byte(`{"steps":[{"id":"s","condition":"{{"}]}`), "sha256:3"
	if _, err := compile(one); err == nil {
		t.Error("what cannot be compiled is")
	}
}

// A definition that takes long to compile keeps no other one waiting.
func TestAttackSlowCompile(t *testing.T) {
	t.Parallel()
	compile := workflows.NewCompiler()
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer ended.Store(true)
		began := time.Now()
		slow := `{"name":"slow","description":"d","steps":[{"id":"s","tool":"t","arguments":{"a":"` + strings.Repeat("{{1}}", 200_000) + `"}}]}`
		_, err := compile(workflows.Pinned{Name: "slow", Source: []byte(slow)})
		t.Logf("compiling %d bytes took %s, %v", len(slow), time.Since(began), err)
	}()
	time.Sleep(20 * time.Millisecond)
	others := 0
	for ; !ended.Load(); others++ {
		source := fmt.Sprintf(`{"name":"a%d","description":"d","steps":[{"id":"s","tool":"t"}]}`, others)
		if _, err := compile(workflows.Pinned{Name: "a", Source: []byte(source)}); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if others < 10 {
		t.Errorf("%d other definitions were compiled meanwhile", others)
	}
}

// BenchmarkProgram is what a call pays for its definition after the first.
func BenchmarkProgram(b *testing.B) {
	compile := workflows.NewCompiler()
	pinned := workflows.Pinned{Name: "a", Digest: "sha256:1", Source: []byte(`{"name":"a","description":"d","steps":[{"id":"s","tool":"t"}]}`)}
	for b.Loop() {
		if _, err := compile(pinned); err != nil {
			b.Fatal(err)
		}
	}
}
