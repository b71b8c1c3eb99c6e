package workflows_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows"
)

// TestContractOfFailures holds the table of docs/contract.md, what follows the
// failure of an attempt, against the code.
func TestContractOfFailures(t *testing.T) {
	t.Parallel()
	failures := []func(workflows.Attempt) (*workflows.Error, bool){
		func(a workflows.Attempt) (*workflows.Error, bool) { return a.Answered("no") },
		func(a workflows.Attempt) (*workflows.Error, bool) { return a.Refused("no") },
		func(a workflows.Attempt) (*workflows.Error, bool) { return a.Unavailable("away") },
		func(a workflows.Attempt) (*workflows.Error, bool) { return a.Unauthorized("expired") },
		func(a workflows.Attempt) (*workflows.Error, bool) { return a.Lost("reset") },
		func(a workflows.Attempt) (*workflows.Error, bool) { return a.Held(workflows.HeldByRate) },
		workflows.Attempt.TimedOut, workflows.Attempt.Cancelled, workflows.Attempt.SentBefore, workflows.Attempt.Denied, workflows.Attempt.Unruled,
	}
	classes := []definitions.Effect{definitions.Read, definitions.Idempotent, definitions.Keyed, definitions.Unsafe}
	code := map[string][2]string{}
	for _, fails := range failures {
		var words [2]string
		var name string
		for i, class := range classes {
			attempt := workflows.Attempt{Number: 1, Call: workflows.ToolCall{Tool: "t", Effect: class, MaxAttempts: 1}}
			e, once := fails(attempt)
			attempt.Call.MaxAttempts = 2
			_, twice := fails(attempt)
			attempt.Number, attempt.Call.MaxAttempts = 100, 1
			_, always := fails(attempt)
			name = string(e.Code)
			word := "not again"
			switch {
			case always:
				word = "again"
			case once:
				word = "again, four times in all"
			case twice:
				word = "as `onError` says"
			}
			if e.Category == codes.CategoryOutcomeUnknown {
				word += ": `outcome_unknown`"
			}
			column := i / 3
			if words[column] != "" && words[column] != word {
				t.Errorf("%s: %s is not as the classes before: %s, %s", name, class, words[column], word)
			}
			words[column] = word
		}
		code["`"+name+"`"] = words
	}
	page := perduretest.Read(t, "../docs/contract.md")
	told := map[string][2]string{}
	_, table, _ := strings.Cut(string(page), "| failure of an attempt | `read`, `idempotent`, `keyed` | `unsafe` |\n|---|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		told[strings.TrimSpace(cells[1])] = [2]string{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
	}
	if diff := cmp.Diff(code, told); diff != "" {
		t.Errorf("failures (-code +page): %s", diff)
	}
}

// TestAnsweredRetryable: calling again with arguments that do not fit the schema of a tool
// does not help.
func TestAnsweredRetryable(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"out of disk": true,
		"":            true,
		"MCP error -32602: Input validation error: Invalid arguments for tool read_file": false,
		"MCP error -32603: internal": true,
	} {
		e, repeat := workflows.Attempt{Number: 1, Call: workflows.ToolCall{Tool: "be_read", MaxAttempts: 2}}.Answered(message)
		if e.Retryable != want || !repeat {
			t.Errorf("%q: retryable %v, repeated %v; want %v, and repeated as onError says", message, e.Retryable, repeat, want)
		}
	}
}
