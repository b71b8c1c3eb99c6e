package definitions

import (
	"fmt"
	"strings"
	"time"
)

// Wait gives when a wait step that starts now ends. A duration that is
// negative and a time that is past end it at once; more than MaxWait is an
// error.
func (n *Node) Wait(s *Scope, now time.Time) (time.Time, error) {
	field, template, parse := "for", n.duration, parseWaitFor
	if n.Step.Until != "" {
		field, template, parse = "until", n.until, parseWaitUntil
	}
	text, err := template.Text(s.data())
	if err != nil {
		return time.Time{}, &TemplateError{Field: field, Message: err.Error()}
	}
	end, err := parse(text, now)
	switch {
	case err != nil:
		return time.Time{}, &TemplateError{Field: field, Message: err.Error()}
	case end.Before(now):
		return now, nil
	case end.After(now.Add(MaxWait)):
		return time.Time{}, &TemplateError{Field: field, Message: fmt.Sprintf("%s is more than ten years ahead (limit MaxWait)", excerpt(strings.TrimSpace(text)))}
	}
	return end, nil
}

// parseWaitFor reads how long a step waits.
func parseWaitFor(text string, now time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, fmt.Errorf("has no value; it must give a duration such as 90m or 72h")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is not a duration: write a number with a unit, such as 30s, 90m or 72h", excerpt(text))
	}
	return now.Add(d), nil
}

// parseWaitUntil reads until when a step waits.
func parseWaitUntil(text string, _ time.Time) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, fmt.Errorf("has no value; it must give a timestamp such as 2026-01-31T09:00:00Z")
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is not a timestamp of RFC 3339, such as 2026-01-31T09:00:00Z or 2026-01-31T09:00:00+01:00", excerpt(text))
	}
	return end, nil
}
