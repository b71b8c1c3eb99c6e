package program_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure/internal/devserver"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/pgtest"
)

// killerDefinitions are of runs that take their workers down once they are
// answered; see planted_killer.go in internal/service.
const killerDefinitions = `
  - name: killer
    description: It takes its worker down.
    parameters: *key
    steps:
      - {id: before, tool: be_write, arguments: {text: "{{.params.key}}:before"}}
      - {id: approval, type: elicitation, message: "Go on with {{.params.key}}?", timeout: 24h, schema: *verdict, dependsOn: [before]}
      - {id: after, tool: be_write, arguments: {text: "{{.params.key}}:after"}, dependsOn: [approval]}
`

// TestAttackWorkerKiller has runs take down the workers of a production, and does
// with them what an operator can: find them, release, fail and terminate them, and
// retry one. Everything else goes on.
func TestAttackWorkerKiller(t *testing.T) {
	t.Parallel()
	k := newKillerTest(t)
	healthy := []string{"h1", "h2", "h3"}
	calls := map[string]pending{}
	for _, key := range healthy {
		calls[key] = begin(t, dial(t, k.url(), legacy, nil), keyed("review", key))
	}
	released, failed, terminated := k.call("released"), k.call("failed"), k.call("terminated")

	k.kill(released)
	k.kills(t, 3)
	k.seen(t, released)
	for _, key := range healthy {
		k.answer(t, k.gates(t, key, 1), "approval")
		k.completed(t, "review", key, sent(t, receive(t, calls[key].result, "the result of "+key)))
	}

	// An answer and a cancel do not reach it.
	if out, err := k.try(t, "runs", "answer", released, "--accept", "--content", `{"verdict": "ok"}`); err == nil || !strings.Contains(out, "quarantined") {
		t.Errorf("an answer to a quarantined run: %v\n%s", err, out)
	}
	if out, err := k.try(t, "runs", "cancel", failed); err != nil || strings.Contains(out, "quarantined") {
		t.Errorf("cancelling a run that is not quarantined: %v\n%s", err, out)
	}
	until(t, "it to be cancelled", func() bool { return k.show(t, failed).Status == runs.Cancelled })
	failed = k.call("failed-2")
	for _, command := range []string{"release", "fail"} {
		if out, err := k.try(t, "runs", command, failed); err == nil || !strings.Contains(out, "is not quarantined") {
			t.Errorf("runs %s of a healthy run: %v\n%s", command, err, out)
		}
	}

	// Released, it costs two more workers; mended, it goes on where it was.
	k.must(t, "runs", "release", released, "--reason", "try again", "--by", "op")
	k.kills(t, 5)
	until(t, "it to be quarantined again", func() bool { return k.show(t, released).Status == runs.Quarantined })
	k.mend(t, true)
	until(t, "it to be listed as quarantined again", func() bool {
		return strings.Contains(k.must(t, "runs", "list", "--status", "quarantined"), released)
	})
	many := []string{"runs", "release", "--query", "PerdureTool = 'killer'", "--reason", "mended"}
	if out, err := k.try(t, many...); err == nil || !strings.Contains(out, "1 of killer (quarantined), such as "+released) || !strings.Contains(out, "nothing was done; check") {
		t.Errorf("releasing many without a yes: %v\n%s", err, out)
	}
	if out := k.must(t, append(many, "--yes", "-o", "json")...); !strings.Contains(out, `"released": 1`) {
		t.Errorf("releasing many: %s", out)
	}
	until(t, "it to complete", func() bool { return k.show(t, released).Status == runs.Completed })
	k.wrote(t, "released", "released:before", "released:after")
	logs := k.must(t, "runs", "logs", released)
	for _, told := range []string{"was lost", "and nothing else", "quarantined, and not executed", "released by op: try again"} {
		if !strings.Contains(logs, told) {
			t.Errorf("the log does not tell that it %s:\n%s", told, logs)
		}
	}

	k.mend(t, false)
	k.kill(failed)
	k.kills(t, 8)
	until(t, "it to be quarantined", func() bool { return k.show(t, failed).Status == runs.Quarantined })
	if out, err := k.try(t, "runs", "cancel", failed); err != nil || !strings.Contains(out, "quarantined") {
		t.Errorf("cancelling a quarantined run: %v\n%s", err, out)
	}
	k.must(t, "runs", "fail", failed, "--reason", "beyond help")
	d := k.show(t, failed)
	if d.Status != runs.Failed || d.Outcome == nil || d.Outcome.Failure.Error.Code != "quarantined" || !strings.Contains(d.Outcome.Failure.Error.Message, "beyond help") {
		t.Errorf("the failed run is %s: %s", d.Status, asJSON(t, d.Outcome))
	}
	if out := k.must(t, "runs", "list", "--status", "failed"); !strings.Contains(out, failed) {
		t.Errorf("the failed run is not listed:\n%s", out)
	}
	// What it has done is asked for, which does not execute it; the resumption does.
	k.mend(t, true)
	k.must(t, "runs", "resume", failed, "--yes")
	k.answer(t, k.gates(t, "failed-2", 1), "approval")
	until(t, "the resumed run to complete", func() bool { return k.show(t, failed).Status == runs.Completed })
	k.wrote(t, "failed-2", "failed-2:before", "failed-2:after")

	k.mend(t, false)
	k.kill(terminated)
	k.kills(t, 11)
	until(t, "it to be quarantined", func() bool { return k.show(t, terminated).Status == runs.Quarantined })
	k.must(t, "runs", "terminate", terminated)
	if d := k.show(t, terminated); d.Status != runs.Terminated || d.Quarantine != nil {
		t.Errorf("the terminated run is %s", d.Status)
	}
	if out := k.must(t, "runs", "list", "--status", "quarantined"); strings.Contains(out, "killer") {
		t.Errorf("still quarantined:\n%s", out)
	}
	k.kills(t, 11)
}

// A killerTest has a gateway, and a worker that can be taken down and is started
// again.
type killerTest struct {
	*replicas
	metrics, gatewayMetrics, mended string
	deaths                          atomic.Int32
}

func newKillerTest(t *testing.T) *killerTest {
	t.Helper()
	program := buildPlanted(t)
	data := t.TempDir()
	server, err := devserver.Start(t.Context(), devserver.Options{Dir: data, SearchAttributes: runs.SearchAttributes(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	temporal := &temporalServer{t: t, address: server.Address(), env: web.PairEnvironment(devserver.KeyFile(data))}
	k := &killerTest{replicas: prepareReplicas(t, temporal, "default", "--call-patience", "0s")}
	config := perduretest.Must(os.OpenFile(filepath.Join(k.dir, "perdure.yaml"), os.O_APPEND|os.O_WRONLY, 0))(t)
	if _, err := config.WriteString(killerDefinitions); err != nil || config.Close() != nil {
		t.Fatal(err)
	}
	k.mended = filepath.Join(k.dir, "mended")
	for _, at := range []*string{&k.metrics, &k.gatewayMetrics} {
		if *at, err = pgtest.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	k.gateways[0].args = append(k.gateways[0].args, "--metrics-listen", k.gatewayMetrics)
	w := k.workers[0]
	w.build, w.env = program, append(w.env, "PERDURE_PLANTED=killer", "PERDURE_MENDED="+k.mended)
	w.args = append(w.args, "--metrics-listen", k.metrics)
	k.gateways[0].start()
	w.start()
	go k.supervise(w)
	return k
}

// supervise starts the worker again when it is gone, until the test ends.
func (k *killerTest) supervise(w *process) {
	for {
		select {
		case <-w.ended:
		case <-k.t.Context().Done():
			return
		}
		if k.t.Context().Err() != nil {
			return
		}
		k.deaths.Add(1)
		w.launch()
	}
}

// mend has runs do no harm, or harm again.
func (k *killerTest) mend(t *testing.T, mended bool) {
	t.Helper()
	if mended {
		putFile(t, k.mended, "")
	} else if err := os.Remove(k.mended); err != nil {
		t.Fatal(err)
	}
}

func (k *killerTest) url() string { return "http://" + k.gateways[0].address + endpoint }

// call starts a killer, and waits until it asks.
func (k *killerTest) call(key string) string {
	k.t.Helper()
	begin(k.t, dial(k.t, k.url(), legacy, nil), keyed("killer", key))
	return k.gates(k.t, key, 1)
}

// kill answers a killer, which takes its worker down instead of hearing that.
func (k *killerTest) kill(id string) {
	k.t.Helper()
	cmd := k.command(k.t, "runs", "answer", id, "--accept", "--content", `{"verdict": "ok"}`)
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

func (k *killerTest) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := k.command(t, args...).CombinedOutput()
	return string(out), err
}

func (k *killerTest) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := k.try(t, args...)
	if err != nil {
		t.Fatalf("perdure %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (k *killerTest) show(t *testing.T, id string) (d runs.Detail) {
	t.Helper()
	perduretest.NoError(t, json.Unmarshal([]byte(k.must(t, "runs", "show", id, "-o", "json")), &d))
	return d
}

// kills waits until so many workers have died, and checks that no more have.
func (k *killerTest) kills(t *testing.T, n int32) {
	t.Helper()
	until(t, fmt.Sprintf("%d workers to die", n), func() bool { return k.deaths.Load() >= n })
	if got := k.deaths.Load(); got != n {
		t.Errorf("%d workers have died, not %d", got, n)
	}
}

// seen checks that a quarantined run is found in every place.
func (k *killerTest) seen(t *testing.T, id string) {
	t.Helper()
	until(t, "it to be listed as quarantined", func() bool {
		return strings.Contains(k.must(t, "runs", "list", "--status", "quarantined"), id)
	})
	if out := k.must(t, "runs", "list", "--query", `TemporalPauseInfo = "Reason:quarantined: it takes its worker down"`); !strings.Contains(out, id) {
		t.Errorf("it is not found by its search attribute:\n%s", out)
	}
	out := k.must(t, "runs", "show", id)
	if !strings.Contains(out, "quarantined since") || !strings.Contains(out, "executed nothing else") || !strings.Contains(out, "runs release "+id) {
		t.Errorf("it shows:\n%s", out)
	}
	alone := 0
	d := k.show(t, id)
	if d.Quarantine != nil {
		for _, loss := range d.Quarantine.Losses {
			if loss.Alone {
				alone++
			}
		}
	}
	if d.Status != runs.Quarantined || alone != 2 || d.Quarantine.Losses[0].Alone {
		t.Errorf("it is %s: %s", d.Status, asJSON(t, d.Quarantine))
	}
	for at, line := range map[string]string{
		k.gatewayMetrics: `(?m)^perdure_runs\{.*perdure_status="quarantined".*\} 1$`,
		k.metrics:        `(?m)^perdure_runs_quarantined_total(\{.*\})? 1$`,
	} {
		pattern := regexp.MustCompile(line)
		until(t, "the metrics to say "+line, func() bool { return pattern.MatchString(metricsPage(t, at)) })
	}
}
