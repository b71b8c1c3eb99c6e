package perduretest

import (
	"runtime"
	"testing"
	"time"
)

// Frugal fails the test if something takes more time, or allocates more bytes. Memory is
// exact; the machine may be busy.
func Frugal(t testing.TB, maxTime time.Duration, maxMemory uint64, do func()) {
	t.Helper()
	start := time.Now()
	allocated := Allocated(do)
	took := time.Since(start).Round(time.Millisecond)
	t.Logf("%s, %d MB", took, allocated>>20)
	if took > maxTime || allocated > maxMemory {
		t.Errorf("it took %s and %d MB", took, allocated>>20)
	}
}

// Allocated is how many bytes are allocated meanwhile.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Heap is how many bytes are in use, without garbage.
func Heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
