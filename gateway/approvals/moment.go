package approvals

import (
	"fmt"
	"time"
)

// A moment is a time as it is shown; zero = none.
type moment struct {
	time.Time
	now time.Time
}

func (in *inbox) moment(t time.Time) moment { return moment{t, in.now()} }

// Machine is for the datetime of an HTML time element.
func (m moment) Machine() string { return m.UTC().Format(time.RFC3339) }

// Clock is the time of day, in UTC, since the reader's zone is unknown.
func (m moment) Clock() string { return m.UTC().Format("2 January 2006, 15:04 UTC") }

// Distance is the time from now, such as "3 minutes ago".
func (m moment) Distance() string {
	d := m.now.Sub(m.Time)
	if d < 0 {
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

func span(d time.Duration) string {
	switch { // 23 hours and 59.5 minutes are a day
	case d > 24*time.Hour:
		d = d.Round(time.Hour)
	case d > time.Hour:
		d = d.Round(time.Minute)
	}
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second}} {
		switch n := int(d / unit.size); {
		case n == 1 && unit.size == time.Second, n == 0 && unit.size == time.Second:
			return "a moment"
		case n == 1:
			return "1 " + unit.name
		case n > 1:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return "a moment"
}
