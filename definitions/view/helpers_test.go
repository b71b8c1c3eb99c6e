package view

import (
	"math/big"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/perduretest"
)

// scope is what the programs of these tests read.
func scope() *definitions.Scope {
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	return &definitions.Scope{
		Params: map[string]any{
			"name": "Ada", "big": int64(12345678), "huge": huge, "price": template.Float(1234567.5), "three": template.Float(3),
			"zero": int64(0), "null": nil, "list": []any{int64(1), template.Float(2.5), nil, "x"},
			"tree": map[string]any{"b": []any{true}, "a": map[string]any{"n": template.Float(1e21)}},
			"code": "{{.params.secret}} {{ broken", "json": `{"title":"T","n":12345678901234567890,"user":null}`,
		},
		Steps: map[string]any{
			"done": definitions.StepScope{Status: "completed", Output: map[string]any{
				"tags": []any{"a", "b"}, "count": int64(12), "text": `{"files":[{"name":"a.go"}],"none":null}`, "ok": true, "one": "1",
				"sub": map[string]any{"k": int64(1)}, "word": "word", "ratio": template.Float(0.25), "nothing": nil, "items": []any{map[string]any{"id": int64(0)}},
			}}.Data(),
			"gate":    definitions.StepScope{Status: "completed", Action: "accept", Content: map[string]any{"why": "because"}, Output: map[string]any{"action": "accept"}}.Data(),
			"bad":     definitions.StepScope{Status: "failed", Error: "planned failure"}.Data(),
			"skipped": definitions.StepScope{Status: "skipped"}.Data(),
		},
		Workflow: definitions.WorkflowScope{ID: "deploy/abc", Status: "completed", StepCount: 2, DurationMS: 1500, StartTime: time.Date(2026, 8, 21, 12, 0, 0, 5, time.FixedZone("", 7200))},
		ForEach:  map[string]any{"item": map[string]any{"i": int64(2)}, "index": 1},
	}
}

func compileSteps(t testing.TB, steps ...*definitions.Step) *definitions.Program {
	t.Helper()
	p := perduretest.Must(definitions.Compile(&definitions.Definition{Name: "test", Steps: steps}))(t)
	return p
}
