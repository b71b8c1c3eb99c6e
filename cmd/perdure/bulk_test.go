package main

import (
	"math"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/runs"
)

func TestCheckBulk(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		rate  float64
		limit int
	}{{0, 1}, {-1, 1}, {math.NaN(), 1}, {math.Inf(1), 1}, {1e-12, 1}, {1e12, 1}, {5, 0}, {5, -1}} {
		if checkBulk(bad.rate, bad.limit) == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if err := checkBulk(5, 1000); err != nil {
		t.Error(err)
	}
}

// TestCut: a run that has continued as new comes in the index with its last execution, and
// is not left out of the query for the others because it started first.
func TestCut(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	late := runs.Run{ID: "late", Started: at, Began: at.Add(time.Minute)}
	continued := runs.Run{ID: "continued", Started: at.Add(-time.Hour), Began: at.Add(2 * time.Minute)}
	kept, others := cut([]runs.Run{late, continued}, 1, "A OR B")
	if len(kept) != 1 || kept[0].ID != "continued" || others != "(A OR B) AND StartTime <= '2026-11-27T12:01:00Z'" {
		t.Errorf("got %+v, %s", kept, others)
	}
}
