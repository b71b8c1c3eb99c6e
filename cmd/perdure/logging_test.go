package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
)

// TestLogDiagnostics logs a note as what it is: a folder with resources of a cluster has many.
func TestLogDiagnostics(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	logDiagnostics(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), definitions.Diagnostics{
		{Severity: definitions.SeverityNote, Message: "skipped"}, {Severity: definitions.SeverityWarning, Message: "unknown"},
	})
	for _, want := range []string{"level=INFO msg=skipped", "level=WARN msg=unknown"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
