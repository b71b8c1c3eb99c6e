package workflows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// TestTimeOfLoops shows that a forEach without a timeout lasts as long as its items
// may, as a graph and as a script.
func TestTimeOfLoops(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		loop, want string
		answers    []time.Duration // of the items
	}{
		"items with a timeout":   {`collection: "[1, 2, 3]", maxParallel: 1, step: {type: elicitation, message: m, timeout: 10h}`, `{"o":"3 of 3"}`, []time.Duration{6, 12, 18}},
		"items side by side":     {`collection: "[1, 2, 3]", step: {type: elicitation, message: m, timeout: 10h}`, `{"o":"3 of 3"}`, []time.Duration{6, 8, 9}},
		"items without a limit":  {`collection: "[1, 2]", maxParallel: 1, step: {type: wait, for: 60h}`, `{"o":"2 of 2"}`, nil},
		"an item that ends late": {`collection: "[1]", onError: {action: continue}, step: {type: elicitation, message: m, timeout: 5h}, defaultResults: {completed: none, count: late}`, `{"o":"none of late"}`, []time.Duration{6}},
		"its own timeout":        {`collection: "[1, 2]", maxParallel: 1, timeout: 11h, onError: {action: continue}, step: {type: elicitation, message: m, timeout: 10h}, defaultResults: {completed: none, count: late}`, `{"o":"none of late"}`, []time.Duration{6, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := parsedLoop(t, tc.loop)
			w := &world{known: []bool{false}, person: func(string, workflows.Elicitation) (string, string, time.Duration) {
				return "accept", `{}`, 6 * time.Hour
			}}
			w.compareForms(t, d, `{}`)
			b := newBench(t, string(d.Source()), `{}`, nil)
			for i, after := range tc.answers {
				b.answer(after*time.Hour, fmt.Sprintf("e[%d]#1", i), "accept", `{}`)
			}
			if got, failure := b.run(); failure != nil || got != tc.want {
				t.Errorf("got %s, %+v, want %s", got, failure, tc.want)
			}
		})
	}
}

// TestNullCollections shows that a collection that is null has no items, and that
// one that is missing is a failure.
func TestNullCollections(t *testing.T) {
	t.Parallel()
	for collection, want := range map[string]string{
		"{{.params.null}}": `{"o":"0 of 0"}`, "{{json .params.null}}": `{"o":"0 of 0"}`, "{{.params.deep.null}}": `{"o":"0 of 0"}`,
		"{{json .params.deep.missing}}": `{"o":"0 of 0"}`, "{{index .params.deep \"null\"}}": `{"o":"0 of 0"}`,
		"{{.params.missing}}": `{"o":"none of late"}`, "{{.params.deep.missing}}": `{"o":"none of late"}`, "{{.params.text}}": `{"o":"none of late"}`,
	} {
		t.Run(collection, func(t *testing.T) {
			t.Parallel()
			d := parsedLoop(t, `collection: '`+collection+`', onError: {action: continue}, step: {tool: t}, defaultResults: {completed: none, count: late}`)
			const arguments = `{"null":null,"deep":{"null":null},"text":"some"}`
			(&world{known: []bool{false}}).compareForms(t, d, arguments)
			if got, failure := newBench(t, string(d.Source()), arguments, nil).run(); failure != nil || got != want {
				t.Errorf("got %s, %+v, want %s", got, failure, want)
			}
		})
	}
}

// parsedLoop is a definition with one forEach, and an output that reports how many of
// its items completed.
func parsedLoop(t *testing.T, loop string) *definitions.Definition {
	t.Helper()
	defs, diags := definitions.Parse("test.yaml", []byte(strings.Replace(`{name: a, description: d, timeout: 900h,
		parameters: {type: object, properties: {"null": {}, missing: {}, deep: {}, text: {}}}, steps: [{id: e, type: forEach, LOOP}],
		output: {properties: {o: {type: string, description: d, value: "{{.steps.e.output.completed}} of {{.steps.e.output.count}}"}}}}`, "LOOP", loop, 1)))
	perduretest.NoError(t, diags.Err())
	return defs[0]
}
