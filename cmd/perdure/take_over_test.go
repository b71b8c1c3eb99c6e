package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/scaffold"
)

// TestConfirmEffects lets a person at a terminal change classes before they are
// written, or refuse.
func TestConfirmEffects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, typed string
		want        []string // class and reason of each tool; nil = nothing is written
	}{
		{"accepted", "\n", []string{"read: its name says get", "unsafe: its name says delete"}},
		{"changed", "1=unsafe, be_delete=idempotent\ny\n", []string{"unsafe: set by hand", "idempotent: set by hand"}},
		{"mistakes", "3=read be_gett=read 1=reed\ny\n", []string{"read: its name says get", "unsafe: its name says delete"}},
		{"refused", "n\n", nil},
		{"end of input", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			c := &console{in: strings.NewReader(test.typed), out: &out, err: &errs, exact: &out, screen: &errs}
			set := scaffold.Of(&config.Server{Name: "be", Transport: "stdio", Command: "be"})
			taken := newTakeOver(takeOverFlags{}, c, set)
			for _, name := range []string{"get", "delete"} {
				tool := backends.Tool{Name: "be_" + name, Backend: "be", Original: name, InputSchema: json.RawMessage(`{}`)}
				taken.tools, taken.report.Effects = append(taken.tools, tool), append(taken.report.Effects, scaffold.Propose(tool))
			}
			err := taken.confirmEffects(t.Context())
			if test.want == nil {
				if !errors.Is(err, errNothingWritten) {
					t.Fatalf("the error is %v", err)
				}
				return
			}
			var got []string
			for _, p := range taken.report.Effects {
				got = append(got, string(p.Class)+": "+p.Reason)
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
			if test.name == "mistakes" && (!strings.Contains(errs.String(), `did you mean "be_get"?`) || !strings.Contains(errs.String(), `did you mean "read"?`)) {
				t.Errorf("complaints: %s", errs.String())
			}
		})
	}
}

// TestAttackNamesOfTools: a tool whose name is a pattern gives its class to no other tool.
func TestAttackNamesOfTools(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	taken := newTakeOver(takeOverFlags{}, &console{out: &out, err: &errs, exact: &out, screen: &errs}, scaffold.Of(&config.Server{Name: "be", Transport: "stdio", Command: "be"}))
	readOnly := true
	var tools []backends.Tool
	for _, name := range []string{"*", "delete", "d?lete", "[d]elete", "\u202ex"} {
		tools = append(tools, backends.Tool{Name: "be_" + name, Backend: "be", Original: name, Annotations: backends.Annotations{ReadOnlyHint: &readOnly}})
	}
	taken.take(tools)
	if len(taken.tools) != 1 || len(taken.report.Effects) != 1 || taken.report.Effects[0].Tool != "delete" {
		t.Errorf("rules are proposed for %+v", taken.report.Effects)
	}
	if len(taken.report.Notes) != 4 {
		t.Errorf("the notes are %q", taken.report.Notes)
	}
}

// Tools that a server has and steps cannot call are named, with the reason.
func TestToolsLeftOutAreNamed(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	taken := newTakeOver(takeOverFlags{}, &console{out: &out, err: &errs, exact: &out, screen: &errs}, scaffold.Of(&config.Server{Name: "be", Transport: "stdio", Command: "be"}))
	taken.note([]backends.Status{{Name: "be", Up: true, LeftOut: map[string]string{`"delete item"`: "its name has white space in it"}}})
	if want := `left out the tool "delete item" of be: its name has white space in it`; strings.TrimSpace(errs.String()) != want || len(taken.report.Notes) != 1 {
		t.Errorf("it says %s", errs.String())
	}
}
