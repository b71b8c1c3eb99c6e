package definitions

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/template"
)

// Wait gives when a wait step that starts now ends. A negative duration or a past time
// ends it at once; more than MaxWait is an error.
func (n *Node) Wait(d Data, now time.Time) (time.Time, error) {
	text, err := n.WaitText(d)
	if err != nil {
		return time.Time{}, err
	}
	end := now
	if n.Step.Until != "" {
		end, err = parseUntil(text)
	} else {
		var duration time.Duration
		duration, err = parseFor(text)
		end = now.Add(duration)
	}
	switch {
	case err == nil && end.After(now.Add(MaxWait)):
		err = tooLong(text)
	case end.Before(now):
		end = now
	}
	return end, template.InField(n.waitField(), err)
}

// WaitText gives the duration or the timestamp of a wait step. It fails as Wait does,
// except for errors that depend on the time.
func (n *Node) WaitText(d Data) (text string, err error) {
	if n.Step.Until != "" {
		if text, err = n.Templates.Until.Text(d.Data()); err == nil {
			_, err = parseUntil(text)
		}
	} else if text, err = n.Templates.For.Text(d.Data()); err == nil {
		var duration time.Duration
		if duration, err = parseFor(text); duration > MaxWait {
			err = tooLong(text)
		}
	}
	return strings.TrimSpace(text), template.InField(n.waitField(), err)
}

func (n *Node) waitField() string {
	if n.Step.Until != "" {
		return "until"
	}
	return "for"
}

func tooLong(text string) error {
	return fmt.Errorf("%s is more than ten years ahead (limit MaxWait)", template.Excerpt(strings.TrimSpace(text)))
}

// parseFor reads how long a step waits.
func parseFor(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, fmt.Errorf("has no value; it must give a duration such as 90m or 72h")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s is not a duration: write %s", template.Excerpt(text), cmp.Or(meantDuration(text), "a number with a unit, such as 30s, 90m or 72h"))
	}
	return d, nil
}

// parseUntil reads until when a step waits.
func parseUntil(text string) (time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return time.Time{}, fmt.Errorf("has no value; it must give a timestamp such as 2026-01-31T09:00:00Z")
	}
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is not a timestamp of RFC 3339, such as 2026-01-31T09:00:00Z or 2026-01-31T09:00:00+01:00", template.Excerpt(text))
	}
	return end, nil
}
