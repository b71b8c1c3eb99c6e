package check

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const alertsFile = chartDir + "/files/alerts.yaml"

// TestAlerts has Prometheus read the alerts. That each metric exists is for
// cmd/perdure's TestDeployedMetrics.
func TestAlerts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation)
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) == 0 {
		t.Fatal("there are no alerts")
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: an alert says how bad it is, what it is, and what to do", r.Alert)
			}
		}
	}
}

// TestAlertsFire gives alerts what Prometheus would have, and holds that they say
// something then and nothing otherwise.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	alerts := alertRules(t)
	told := map[string]map[bool]bool{} // by alert: cases in which it fires, and does not
	const unknown = `perdure_step_unknown_outcomes_total{perdure_backend="be", gen_ai_tool_name="pay", instance="a"} `
	for _, c := range []struct {
		alert, series string // a sample each minute for an hour; _ = none
		fires         bool
	}{
		{"PerdureUnknownOutcome", unknown + "_x55 1x5", true},                                                              // the first of a worker and a tool
		{"PerdureUnknownOutcome", unknown + "1x55 2x5", true},                                                              // one more
		{"PerdureUnknownOutcome", unknown + "1x60", false},                                                                 // long ago
		{"PerdureUnknownOutcome", unknown + "1x30 _x25 1x5", true},                                                         // a worker that was started anew
		{"PerdureUnknownOutcome", "perdure_runs 1x60", false},                                                              // none at all
		{"PerdureProcessCutOff", "perdure_backend_up{instance=\"a\"} 0x60\nperdure_backend_up{instance=\"b\"} 1x60", true}, // such as one with the configuration of before
		{"PerdureProcessCutOff", "perdure_need_up{instance=\"a\"} 0x60\nperdure_need_up{instance=\"b\"} 1x60", true},
		{"PerdureProcessCutOff", "perdure_backend_up{instance=\"a\"} 0x60\nperdure_backend_up{instance=\"b\"} 0x60", false}, // PerdureBackendDown says it
		{"PerdureProcessCutOff", "perdure_backend_up{instance=\"a\"} 1x60\nperdure_backend_up{instance=\"b\"} 1x60", false},
		{"PerdureWorkerFails", "temporal_workflow_task_execution_failed_total{instance=\"a\"} 0+2x60\ntemporal_workflow_task_execution_failed_total{instance=\"b\"} 0x60", true}, // it lacks a key
		{"PerdureWorkerFails", `temporal_workflow_task_execution_failed_total{instance="a"} 0x50 5x10`, false},                                                                   // one run that fails
		{"PerdureWorkerFails", `temporal_workflow_task_execution_failed_total{instance="a"} 500x60`, false},                                                                      // long ago
		{"PerdureProcessSilent", "up{job=\"p\", instance=\"a\"} 1x30 0x30\nup{job=\"p\", instance=\"b\"} 1x60\nperdure_need_up{job=\"p\", instance=\"b\"} 1x60", true},           // one of two is frozen
		{"PerdureProcessSilent", "up{job=\"p\", instance=\"a\"} 1x30 0x30\nperdure_need_up{job=\"p\", instance=\"a\"} 1x30", true},                                               // the only one
		{"PerdureProcessSilent", "up{job=\"p\", instance=\"a\"} 1x57 0x3\nperdure_need_up{job=\"p\", instance=\"b\"} 1x60", false},                                               // it is restarted
		{"PerdureProcessSilent", "up{job=\"other\", instance=\"a\"} 0x60\nperdure_need_up{job=\"p\", instance=\"b\"} 1x60", false},
		{"PerdureNotReady", `perdure_need_up{perdure_need="Temporal"} 1x50 0x10`, true}, // such as with a full disk
		{"PerdureNotReady", "perdure_need_up{perdure_need=\"Temporal\"} 1x60\nperdure_need_up{perdure_need=\"issuer\"} 1x50 0x10", true},
		{"PerdureNotReady", `perdure_need_up{perdure_need="Temporal"} 1x59 0`, false}, // for a moment
		{"PerdureNotReady", "perdure_need_up{instance=\"a\"} 0x60\nperdure_need_up{instance=\"b\"} 1x60", false},
		{"PerdureHistoryLost", `perdure_history_lost_total{instance="a"} 0x50 1x10`, true},
		{"PerdureHistoryLost", `perdure_history_lost_total{instance="a"} 0x60`, false},
		{"PerdureClockWrong", "perdure_clock_ahead_seconds{instance=\"a\"} -180x60\nperdure_clock_ahead_seconds{instance=\"b\"} 0x60", true},
		{"PerdureClockWrong", "perdure_clock_ahead_seconds{instance=\"a\"} 4x60", false},
		{"PerdureTellsNothing", "perdure_runs 1x60", false},           //
		{"PerdureTellsNothing", "perdure_runs 1x50 _x2 1x8", false},   // a restart
		{"PerdureTellsNothing", "perdure_runs 1x30 _x30", true},       // Temporal is away
		{"PerdureTellsNothing", "process_start_time_seconds 1", true}, // and so are the gateways
		{"PerdureCallsUnread", `perdure_runs_waiting{perdure_waiting="payload"} 0x60`, false},
		{"PerdureCallsUnread", `perdure_runs_waiting{perdure_waiting="payload"} 0x30 2x30`, true},
		{"PerdureRunsNotExecuted", `perdure_runs_waiting{perdure_waiting="worker"} 0x60`, false},
		{"PerdureRunsNotExecuted", `perdure_runs_waiting{perdure_waiting="worker"} 0x30 1x30`, true},
		{"PerdureSignalsUnchecked", `perdure_runs_waiting{perdure_waiting="key"} 0x60`, false},
		{"PerdureSignalsUnchecked", `perdure_runs_waiting{perdure_waiting="key"} 0x30 1x30`, true},
		{"PerdureRunTerminated", `perdure_runs{perdure_status="terminated"} 3x60`, false},
		{"PerdureRunTerminated", `perdure_runs{perdure_status="terminated"} 3x15 0x45`, false}, // they are kept no more
		{"PerdureRunTerminated", `perdure_runs{perdure_status="terminated"} 0x50 1x10`, true},
		{"PerdureRunTerminated", `perdure_runs{perdure_status="terminated"} 0x30 _x20 1x9`, true},  // while Temporal was away
		{"PerdureRunTerminated", `perdure_runs{perdure_status="terminated"} 3x30 _x20 3x9`, false}, //
		{"PerdureRunQuarantined", `perdure_runs{perdure_status="quarantined"} 0x60`, false},
		{"PerdureRunQuarantined", `perdure_runs{perdure_status="quarantined"} 0x30 1x30`, true},
		{"PerdureRunQuarantined", `perdure_runs_quarantined_total{instance="a"} 0x30 1x30`, true}, // of a Temporal that cannot pause it
		{"PerdureBackendDown", `perdure_backend_up{perdure_backend="be"} 0x60`, true},
		{"PerdureBackendDown", `perdure_backend_up{perdure_backend="be"} 1x57 0x3`, false},                                // a blip
		{"PerdureBackendDown", "perdure_backend_up{instance=\"a\"} 0x60\nperdure_backend_up{instance=\"b\"} 1x60", false}, // another process reaches it
		{"PerdureToolUnavailable", `perdure_tool_up{perdure_tool="t"} 1x30 0x30`, true},                                   // a tool that it calls is gone
		{"PerdureToolUnavailable", `perdure_tool_up{perdure_tool="t"} 1x55 0x5`, false},                                   // a backend is updated
		{"PerdureToolUnavailable", "perdure_tool_up{perdure_tool=\"t\", instance=\"a\"} 0x60\nperdure_tool_up{perdure_tool=\"t\", instance=\"b\"} 1x60", false},
		{"PerdureNobodyWorks", `perdure_queue_lag_seconds{perdure_queue="workflow"} 0x30 61x30`, true},
		{"PerdureNobodyWorks", `perdure_queue_lag_seconds{perdure_queue="workflow"} 59x60`, false},
		{"PerdureNobodyWorks", `perdure_queue_lag_seconds{perdure_queue="workflow"} 0x57 90x3`, false}, // workers are restarted
		{"PerdureNobodyWorks", "perdure_queue_lag_seconds{perdure_queue=\"backend be\", instance=\"a\"} 70x60\nperdure_queue_lag_seconds{perdure_queue=\"backend be\", instance=\"b\"} 70x60", true},
		{"PerdureReconciliationWaits", `perdure_runs_waiting{perdure_waiting="reconciliation"} 1x60`, true},
		{"PerdureReconciliationWaits", `perdure_runs_waiting{perdure_waiting="approval"} 1x60`, false},
		{"PerdureReconciliationWaits", `perdure_runs_waiting{perdure_waiting="reconciliation"} 0x55 1x5`, false}, // a probe finds out by itself
		{"PerdureReconciliationWaits", `perdure_runs_waiting{perdure_waiting="compensation"} 0x30 1x30`, true},
		{"PerdureCredentialsMissing", `perdure_runs_waiting{perdure_waiting="credentials"} 0x25 3x35`, true},
		{"PerdureCredentialsMissing", `perdure_runs_waiting{perdure_waiting="credentials"} 3x30 0x30`, false},
		{"PerdureBackendHeld", `perdure_runs_waiting{perdure_waiting="backend"} 0x30 500x30`, true},  // a backend is away
		{"PerdureBackendHeld", `perdure_runs_waiting{perdure_waiting="backend"} 500x30 0x30`, false}, // and back
		{"PerdureBackendHeld", `perdure_runs_waiting{perdure_waiting="backend"} 0x30 1x30`, true},    // a tool that is called rarely
		{"PerdureBackendHeld", `perdure_runs_waiting{perdure_waiting="breaker"} 1x60`, true},
		{"PerdureBackendHeld", `perdure_runs_waiting{perdure_waiting="rate"} 21x60`, true},
		{"PerdureBackendHeld", `perdure_runs_waiting{perdure_waiting="rate"} 20x60`, false},
		{"PerdureBackendHeld", `perdure_runs_waiting{perdure_waiting="approval"} 5000x60`, false}, // thousands wait for people
		{"PerdureGateForgotten", `perdure_gates_oldest_age_seconds{perdure_kind="approval"} 172801x60`, true},
		{"PerdureGateForgotten", `perdure_gates_oldest_age_seconds{perdure_kind="approval"} 3600x60`, false},
		{"PerdureBackendDown", `perdure_backend_up{perdure_backend="be", instance="a"} 0x60`, true},
		{"PerdureBackendDown", `perdure_backend_up{perdure_backend="be", instance="a"} 1x60`, false},
		{"PerdureRunsFail", `perdure_runs_ended_total{perdure_status="timed_out", perdure_tool="t"} 0+1x60`, true},
		{"PerdureRunsFail", `perdure_runs_ended_total{perdure_status="failed", perdure_tool="t"} 0+0.2x60`, false}, // a few, of a tool that is called rarely
		{"PerdureRunsFail", `perdure_runs_ended_total{perdure_status="failed", perdure_tool="t"} 0+1x60`, true},
		{"PerdureRunsFail", `perdure_runs_ended_total{perdure_status="completed", perdure_tool="t"} 0+1x60`, false},
	} {
		alert, ok := alerts[c.alert]
		if !ok {
			t.Fatalf("there is no alert %s", c.alert)
		}
		if got := firing(t, alert, c.series, 60); got != c.fires {
			t.Errorf("%s of %s: fires: %t, want %t", c.alert, c.series, got, c.fires)
		}
		if told[c.alert] == nil {
			told[c.alert] = map[bool]bool{}
		}
		told[c.alert][c.fires] = true
	}
	for alert := range alerts {
		if !told[alert][true] || !told[alert][false] {
			t.Errorf("no series show that %s fires when it should, and else does not", alert)
		}
	}
}

// alertRules are the alerts by their names.
func alertRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	alerts := map[string]rulefmt.Rule{}
	for _, r := range groups.Groups[0].Rules {
		alerts[r.Alert] = r
	}
	return alerts
}

// TestTerminatedDuringALongOutage has the alert about terminated runs compare with what
// was before an outage that takes longer than an hour.
func TestTerminatedDuringALongOutage(t *testing.T) {
	t.Parallel()
	alert := alertRules(t)["PerdureRunTerminated"]
	for series, fires := range map[string]bool{
		`perdure_runs{perdure_status="terminated"} 0x30 _x600 1x9`: true,
		`perdure_runs{perdure_status="terminated"} 3x30 _x600 3x9`: false,
	} {
		if got := firing(t, alert, series, 640); got != fires {
			t.Errorf("%s: fires: %t, want %t", series, got, fires)
		}
	}
}

// firing says whether an alert fires after some minutes of samples: whether its
// expression has given something for as long as it says.
func firing(t *testing.T, alert rulefmt.Rule, series string, minutes int64) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+strings.ReplaceAll(series, "\n", "\n  ")+"\n")
	defer storage.Close()
	engine, end := promqltest.NewTestEngine(t, false, 0, 1e6), time.Unix(minutes*60, 0)
	for at := end.Add(-time.Duration(alert.For)); !at.After(end); at = at.Add(time.Minute) {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, alert.Expr, at)
		if err != nil {
			t.Fatal(err)
		}
		value, err := query.Exec(t.Context()).Vector()
		query.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(value) == 0 {
			return false
		}
	}
	return true
}

// TestDashboard has Prometheus read each query of the dashboard.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(chartDir + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	queries := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			if _, err := parser.ParseExpr(regexp.MustCompile(`\$[a-z_]+`).ReplaceAllString(variables.Replace(target.Expr), "x")); err != nil {
				t.Errorf("%s: %s: %v", p.Title, target.Expr, err)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
	}
	if queries < 10 {
		t.Errorf("the dashboard has %d queries", queries)
	}
}
