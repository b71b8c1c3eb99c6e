package program_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/topology/clients"
)

// waitingVar has the number of runs that TestManyWait has wait; make soak sets it.
const waitingVar = "PERDURE_TEST_WAITING"

// TestManyWait has thousands of runs wait for people, on a Temporal with its own limit of
// queries of the index (10 a second for the namespace): metrics, the approvals page and
// lists of many people at once answer, and a new call does.
func TestManyWait(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv(waitingVar))
	if n == 0 {
		t.Skip("takes long; set " + waitingVar + " to the number of runs, as make soak does")
	}
	r := prepareReplicas(t, newTemporal(t), "waiting")
	file := filepath.Join(r.dir, "perdure.yaml")
	text := perduretest.Read(t, file)
	putFile(t, file, "quotas: {openRuns: 1000000, runsPerMinute: 1000000, waitingRuns: 1000000, requests: 100000}\n"+
		"telemetry: {enablePrometheusMetricsPath: true}\n"+string(text))
	r.launch()
	r.haveWait(t, n)

	at := r.gateways[0].address
	counts := func(lines ...string) func() bool {
		return func() bool {
			page := metricsPage(t, at)
			for _, line := range lines {
				if !strings.Contains(page, line) {
					return false
				}
			}
			return true
		}
	}
	until(t, "the metrics to count all", counts(
		fmt.Sprintf(`perdure_runs{perdure_status="waiting"} %d`, n), fmt.Sprintf(`perdure_runs_waiting{perdure_waiting="approval"} %d`, n)))

	var all sync.WaitGroup
	took := time.Now()
	for i := range 30 {
		all.Go(func() {
			approver, err := clients.SignInByToken(context.WithoutCancel(t.Context()), "http://"+r.gateways[i%2].address, clients.ApproverToken)
			if err != nil {
				t.Errorf("signing in: %v", err)
				return
			}
			if page, err := approver.Page(t.Context(), "http://"+r.gateways[i%2].address+"/approvals"); err != nil || !strings.Contains(page, "/approvals/review/") {
				t.Errorf("the approvals page: %v", err)
			}
		})
	}
	for range 12 {
		all.Go(func() {
			if out, err := r.perdure(t, "runs", "list", "--waiting", "--limit", "10"); err != nil || strings.Count(out, "review/") != 10 {
				t.Errorf("a list: %v\n%s", err, out)
			}
		})
	}
	all.Wait()
	t.Logf("%d runs wait; 30 pages and 12 lists at once took %s", n, time.Since(took).Round(time.Millisecond))
	if !counts(`perdure_runs{perdure_status="waiting"} `, "perdure_gates_open", "perdure_queue_lag_seconds")() {
		t.Error("the metrics are gone meanwhile")
	}
	began := time.Now()
	if got, err := keyed("review", "one more").by(t.Context(), dial(t, r.balancer(t).url(), legacy, nil)); err != nil || !strings.Contains(asJSON(t, got), "waiting_for_approval") {
		t.Errorf("one more call: %v, %s", err, asJSON(t, got))
	}
	t.Logf("one more call took %s", time.Since(began).Round(time.Millisecond))
}

// haveWait starts so many runs that wait for a person.
func (r *replicas) haveWait(t *testing.T, n int) {
	t.Helper()
	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		c := dial(t, "http://"+r.gateways[i%2].address+endpoint, legacy, nil)
		all.Go(func() {
			for key := next.Add(1); key <= int64(n); key = next.Add(1) {
				if got, err := keyed("review", fmt.Sprint("w", key)).by(t.Context(), c); err != nil || !strings.Contains(asJSON(t, got), "waiting_for_approval") {
					t.Errorf("call %d: %v, %s", key, err, asJSON(t, got))
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d runs were started in %s", n, time.Since(began).Round(time.Second))
}
