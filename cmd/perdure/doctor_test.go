package main

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/service"
)

// TestDoctorFits: on a narrow terminal what to do is not cut.
func TestDoctorFits(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	c := &console{out: &out, outTerminal: true, size: func() (int, int) { return 60, 24 }}
	const fix = "check its headers in the configuration, and the variables that they name"
	checks := []service.Check{{Name: "backend crm", Status: service.CheckFailed, Found: "initialising: HTTP status 401 Unauthorized", Fix: fix}}
	if err := (doctorCommand{}).print(c, checks); err != nil {
		t.Fatal(err)
	}
	if words := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(words, fix) {
		t.Error(out.String())
	}
	for line := range strings.Lines(out.String()) {
		if view.Cells(strings.TrimSuffix(line, "\n")) > 60 {
			t.Errorf("too wide: %s", line)
		}
	}
}

// TestDoctorWithoutKey: what to do about a missing key is said once.
func TestDoctorWithoutKey(t *testing.T) {
	t.Parallel()
	d := doctorCommand{Config: "perdure.yaml", temporalFlags: temporalFlags{Data: dataDir(t.TempDir())}}
	if _, _, err := d.signingKeys(); err == nil || strings.Contains(err.Error(), "--key-file") {
		t.Errorf("got %v, want what is missing and not what to do", err)
	}
}
