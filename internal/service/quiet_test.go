package service

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/secrets"
)

// TestQuiet: what Temporal's client logs of a task that another worker gets is no panic
// to look into, marks of quarantines are no signals that a run should have read, and every other one is logged.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := Quiet(slog.New(slog.NewTextHandler(&out, nil))).With("Namespace", "default")
	log.Info("Started Worker")
	log.Error("Activity error.", "Error", "be_write failed")
	log.Warn("RecordActivityHeartbeat with error", "Error", "context deadline exceeded")
	log.Error("Workflow panic", "Error", secrets.ErrUnknownKey, "StackTrace", "goroutine 1")
	log.Error("Workflow panic", "Error", fmt.Errorf("it was sealed with key \"k1\", %w", payloads.ErrNoKey), "StackTrace", "goroutine 1")
	log.Error("Workflow panic", "Error", fmt.Errorf("it was sealed with key \"k1\", %w; this process has none", payloads.ErrNoKey), "StackTrace", "goroutine 1")
	log.Warn("Workflow has unhandled signals", "SignalNames", []string{quarantine.BegunSignal, quarantine.SurvivedSignal})
	if out.Len() > 0 {
		t.Errorf("logged: %s", &out)
	}
	log.Error("Workflow panic", "Error", errors.New("nondeterminism"), "StackTrace", "goroutine 1")
	log.Warn("Workflow has unhandled signals", "SignalNames", []string{quarantine.BegunSignal, "mine"})
	if !strings.Contains(out.String(), "mine") || !strings.Contains(out.String(), "nondeterminism") || !strings.Contains(out.String(), "StackTrace") {
		t.Errorf("logged: %s", &out)
	}
}
