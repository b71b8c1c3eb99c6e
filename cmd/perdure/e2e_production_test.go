package main

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/pgtest"
	"github.com/perdure/perdure/topology"
)

// TestRestore makes a backup of all databases while runs wait at their gates,
// and goes on with it elsewhere: another PostgreSQL, another Temporal, other
// gateways and workers.
func TestRestore(t *testing.T) {
	t.Parallel()
	before := pgtest.Start(t)
	execute(t, before, "postgres", "create database perdure")
	r := newDatabaseReplicas(t, before)
	b := r.balancer(t)
	ids := map[string]string{}
	for _, tool := range []string{"review", "stages", "pair"} {
		result, err := keyed(tool, tool).by(t.Context(), dial(t, b.url(), legacy, nil))
		if err != nil {
			t.Fatal(err)
		}
		ids[tool] = r.handle(t, result)
	}
	r.answer(t, ids["stages"], "first")
	until(t, "the step between the gates", func() bool {
		run, err := r.perdure(t, "runs", "show", ids["stages"], "-o", "json")
		return err == nil && openGate(t, run) == "second"
	})

	// The backup. What runs begin after it is not in it, so nothing may.
	dir := t.TempDir()
	databases := []string{"temporal", "temporal_visibility", "perdure"}
	for _, database := range databases {
		if err := before.Dump(t.Context(), database, filepath.Join(dir, database)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range append(r.gateways[:], r.workers[:]...) {
		p.kill()
	}
	r.temporal.kill()
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}

	after := pgtest.Start(t)
	for _, database := range databases {
		if err := after.Restore(t.Context(), database, filepath.Join(dir, database)); err != nil {
			t.Fatal(err)
		}
	}
	restored := newDatabaseReplicas(t, after)
	for tool, steps := range map[string][]string{"review": {"approval"}, "stages": {"second"}, "pair": {"left", "right"}} {
		for _, step := range steps {
			restored.answer(t, ids[tool], step)
		}
		c := dial(t, restored.balancer(t).url(), legacy, nil)
		result := toolCall{name: awaitTool, arguments: map[string]any{"runId": ids[tool], "waitSeconds": 30}}.must(t, c)
		switch tool {
		case "stages": // the first of its writes is where it was made
			sameJSON(t, "the result", result, `{"written": "stages:ok"}`)
			r.wrote(t, tool, "stages-between:ok")
			restored.wrote(t, tool, "stages:ok")
		default:
			restored.completed(t, tool, tool, result)
			r.wrote(t, tool)
		}
	}
	// New calls begin as well.
	restored.completed(t, "review", "new", keyed("review", "new").must(t, dial(t, restored.balancer(t).url(), modern, approves)))
}

// newDatabaseReplicas starts replicas on a Temporal that keeps everything in a
// PostgreSQL, in which they have a database of their own.
func newDatabaseReplicas(t *testing.T, pg *topology.PostgreSQL) *replicas {
	t.Helper()
	r := prepareReplicas(t, newTemporalOn(t, pg), "restore", "--call-patience", "500ms")
	for i := range r.gateways {
		for _, p := range []*process{r.gateways[i], r.workers[i]} {
			p.args = append(p.args, "--database", pg.URL("perdure"))
		}
		r.workers[i].args = append(r.workers[i].args, "--key-file", "key0")
	}
	r.launch()
	return r
}

func openGate(t *testing.T, run string) string {
	t.Helper()
	var detail struct {
		Elicitations []struct{ StepID, State string }
	}
	if err := json.Unmarshal([]byte(run), &detail); err != nil {
		t.Fatal(err)
	}
	for _, e := range detail.Elicitations {
		if e.State == "open" {
			return e.StepID
		}
	}
	return ""
}

func execute(t *testing.T, pg *topology.PostgreSQL, database, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), pg.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestProduction starts what make prod-local starts, calls through its proxy in
// each era, and looks at the pages of the proxy and of the Web UI.
func TestProduction(t *testing.T) {
	t.Parallel()
	r := prepareBackend(t)
	p, err := topology.Start(t.Context(), topology.Config{
		Dir: t.TempDir(), Perdure: []string{"perdure"}, ConfigFile: filepath.Join(r.dir, "perdure.yaml"), Env: testEnvironment,
	})
	pgtest.Check(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, version := range []string{legacy, modern} {
		key := "production-" + version
		r.completed(t, "review", key, keyed("review", key).must(t, dial(t, p.URL+endpoint, version, approves)))
	}
	for _, page := range []string{p.URL + "/approvals", p.UIURL + "/namespaces/default/workflows", p.UIURL + "/api/v1/namespaces/default/workflows"} {
		response, err := http.Get(page)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", page, response.Status)
		}
	}
}
