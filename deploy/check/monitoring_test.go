package check

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
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
