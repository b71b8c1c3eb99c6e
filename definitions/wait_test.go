package definitions

import (
	"strings"
	"testing"
	"time"
)

func TestWait(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name    string
		step    Step
		want    time.Time
		field   string // of the error
		message string
	}{
		{"for", Step{For: "72h"}, now.Add(72 * time.Hour), "", ""},
		{"for by template", Step{For: " {{.steps.done.output.count}}m30s\n"}, now.Add(12*time.Minute + 30*time.Second), "", ""},
		{"not at all", Step{For: "0s"}, now, "", ""},
		{"negative", Step{For: "-5m"}, now, "", ""},
		{"ten years", Step{For: "87600h"}, now.Add(MaxWait), "", ""},
		{"more", Step{For: "87600h1ns"}, time.Time{}, "for", "limit MaxWait"},
		{"until", Step{Until: "2026-12-24T18:00:00Z"}, time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC), "", ""},
		{"until elsewhere", Step{Until: "2026-08-21T15:00:00.5+02:00"}, now.Add(time.Hour + 500*time.Millisecond), "", ""},
		{"until by template", Step{Until: `{{.workflow.start_time | replace "10:00" "20:00"}}`}, now.Add(8 * time.Hour), "", ""},
		{"past", Step{Until: "1999-12-31T23:59:59Z"}, now, "", ""},
		{"far future", Step{Until: "9999-01-01T00:00:00Z"}, time.Time{}, "until", "limit MaxWait"},
		{"no unit", Step{For: "90"}, time.Time{}, "for", "is not a duration"},
		{"missing", Step{For: "{{.params.nope}}"}, time.Time{}, "for", "has no value"},
		{"missing time", Step{Until: "{{.params.nope}}"}, time.Time{}, "until", "has no value"},
		{"no time", Step{Until: "2026-12-24"}, time.Time{}, "until", "is not a timestamp"},
		{"broken", Step{Until: `{{fail "no"}}`}, time.Time{}, "until", "fail: no"},
		{"out of range", Step{For: "9999999999h"}, time.Time{}, "for", "is not a duration"},
	}
	for _, test := range tests {
		test.step.ID, test.step.Type = "pause", WaitStep
		got, err := compileSteps(t, &test.step).Steps[0].Wait(scope(), now)
		if test.message != "" {
			wantTemplateError(t, test.name, err, test.field, test.message)
			continue
		}
		if err != nil || !got.Equal(test.want) {
			t.Errorf("%s: %v, %v, want %v", test.name, got, err, test.want)
		}
	}
}

func FuzzWait(f *testing.F) {
	for _, text := range []string{"90m", "-1h", "2026-12-24T18:00:00Z", "{{.params.big}}s", "", "9999-12-31T23:59:59-23:59"} {
		f.Add(text, int64(0))
		f.Add(text, int64(1)<<40)
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		now := time.Unix(unix%(1<<40), 0)
		for _, step := range []*Step{{ID: "a", For: text}, {ID: "a", Until: text}} {
			p, err := Compile(&Definition{Name: "fuzz", Steps: []*Step{step}})
			if err != nil || strings.TrimSpace(text) == "" {
				continue
			}
			end, err := p.Steps[0].Wait(scope(), now)
			if err == nil && (end.Before(now) || end.Sub(now) > MaxWait) {
				t.Errorf("%q: a wait from %v to %v", text, now, end)
			}
		}
	})
}
