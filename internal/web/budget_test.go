package web_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// Whoever has much leaves as much to others, and waits for itself alone.
func TestBudgetIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := web.NewBudget(800, 10*time.Second)
		take := func(caller string, bytes int64) (free func(), took time.Duration, err error) {
			began := time.Now()
			free, err = b.Take(t.Context(), caller, bytes)
			return free, time.Since(began), err
		}
		var held []func()
		for _, tc := range []struct {
			caller string
			bytes  int64
			fits   bool
		}{
			{"guest", 300, true}, {"guest", 200, false}, // at most a half
			{"guest", 100, true},
			{"ann", 200, true}, {"ann", 1, false}, // of the other half, a half
			{"bob", 100, true}, {"bob", 1, false},
			{"cid", 50, true},
		} {
			free, took, err := take(tc.caller, tc.bytes)
			var full *web.FullError
			switch {
			case tc.fits && (err != nil || took > 0):
				t.Errorf("%s, %d: after %s %v", tc.caller, tc.bytes, took, err)
			case !tc.fits && (!errors.As(err, &full) || took != 10*time.Second):
				t.Errorf("%s, %d: after %s %v", tc.caller, tc.bytes, took, err)
			}
			if err == nil {
				held = append(held, free)
			}
		}
		var waited sync.WaitGroup
		waited.Go(func() {
			free, took, err := take("ann", 70) // fits when guest has given back its 300
			if err != nil || took != time.Second {
				t.Errorf("after %s %v", took, err)
				return
			}
			free()
		})
		time.Sleep(time.Second)
		held[0]()
		held[0]() // does nothing
		waited.Wait()
		for _, free := range held[1:] {
			free()
		}
		if _, took, err := take("guest", 1000); err != nil || took > 0 {
			t.Errorf("all that one may have: after %s %v", took, err)
		}
	})
}

// However claims come and go, never more is out than there is, and in the end all
// of it is back.
func TestBudgetKeepsItsSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		b := web.NewBudget(size, 50*time.Millisecond)
		var mu sync.Mutex
		out := int64(0)
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				n := int64(i*37%500 + 1)
				free, err := b.Take(t.Context(), fmt.Sprint("caller ", i%7), n)
				if err != nil {
					return
				}
				mu.Lock()
				if out += n; out > size {
					t.Errorf("%d are out", out)
				}
				mu.Unlock()
				time.Sleep(time.Duration(i%5) * 10 * time.Millisecond)
				mu.Lock()
				out -= n
				mu.Unlock()
				free()
			})
		}
		all.Wait()
		free := perduretest.Must(b.Take(t.Context(), "last", size/2))(t)
		free()
	})
}

// TestAttackDenseBodies sends JSON that takes hundreds of times its size when it is
// decoded: values of two bytes each. It counts for what it takes, also where it is
// small, and is refused where that is more than a body may have. What stands in a
// text is no value.
func TestAttackDenseBodies(t *testing.T) {
	t.Parallel()
	const work = 68 << 20 // a caller has half of it: 891,289 values
	bodies := web.NewBodies(work, 10*time.Millisecond)
	read := func(body string) (free func(), err error) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		_, free, err = bodies.Read(httptest.NewRecorder(), r, "mallory", work)
		return free, err
	}
	for name, body := range map[string]string{
		"numbers": "[" + strings.Repeat("0,", 900_000) + "0]",
		"objects": "[" + strings.Repeat(`{"a":0},`, 300_000) + "0]",
		"nested":  strings.Repeat("[", 900_000),
		"names":   `{"\"` + strings.Repeat(`":0,"\\`, 450_000) + `":0}`,
	} {
		_, err := read(body)
		code, reason := web.Refusal(http.Header{}, err)
		if code != http.StatusRequestEntityTooLarge || !strings.Contains(reason, "891289 JSON values") {
			t.Errorf("%s, of %d bytes: %d, %s", name, len(body), code, reason)
		}
	}
	free, err := read("[" + strings.Repeat("0,", 30_000) + "0]") // 60 KB
	if err != nil {
		t.Fatal(err)
	}
	var full *web.FullError
	if _, err := read("[" + strings.Repeat("0,", 880_000) + "0]"); !errors.As(err, &full) {
		t.Errorf("beside a small dense body there is room for another: %v", err)
	}
	free()
	free, err = read(`{"text":"` + strings.Repeat(`,[{:\"`, 500_000) + `"}`)
	if err != nil {
		t.Fatalf("a text of many commas: %v", err)
	}
	free()
}

// TestWork: a process with little memory works on less at once.
func TestWork(t *testing.T) { // not beside others, whose limit it changes
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int64{math.MaxInt64: 68 << 20, 1 << 30: 68 << 20, 260 << 20: 20 << 20} {
		if debug.SetMemoryLimit(limit); web.Work() != want {
			t.Errorf("of %d bytes: %d, want %d", limit, web.Work(), want)
		}
	}
}
