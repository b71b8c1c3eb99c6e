package definitions

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Position is a place in a file. Lines and columns count from 1; the zero value is no
// place, such as that of a definition made in Go.
type Position struct {
	File         string
	Line, Column int
}

// String gives file:line:col, without what is unknown.
func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.File == "":
		return fmt.Sprintf("%d:%d", p.Line, p.Column)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// A Severity is that of a diagnostic.
type Severity string

// The severities. A definition with an error is not served.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

// A Diagnostic is one mistake in a definition, with its position.
type Diagnostic struct {
	Pos      Position
	Severity Severity
	Message  string
	Check    string // which check found it, e.g. dependency-cycle; stable
}

// String gives "file:line:col: message [check]", with the severity before the
// message unless it is an error.
func (d Diagnostic) String() string {
	var b strings.Builder
	if pos := d.Pos.String(); pos != "" {
		b.WriteString(pos + ": ")
	}
	if d.Severity != SeverityError {
		b.WriteString(string(d.Severity) + ": ")
	}
	b.WriteString(d.Message)
	if d.Check != "" {
		b.WriteString(" [" + d.Check + "]")
	}
	return b.String()
}

// Diagnostics are what a parse or a check found, errors and warnings alike.
type Diagnostics []Diagnostic

// HasErrors reports whether one of them is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, Diagnostic.isError)
}

// Err gives the errors among them as one error, a line for each; nil when
// there is none.
func (ds Diagnostics) Err() error {
	var lines []string
	for _, d := range ds {
		if d.isError() {
			lines = append(lines, d.String())
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// Sort orders them by file, line and column; those of one place keep the order
// in which they were found.
func (ds Diagnostics) Sort() {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
		)
	})
}

// maxReported bounds the mistakes reported of definitions that are checked together, or
// of one file, so that a file made to have a million costs no more.
const maxReported = 1000

// full reports whether there are too many mistakes to add another.
func (ds Diagnostics) full() bool { return len(ds) > maxReported }

// add adds a diagnostic, or says once that there are too many.
func (ds *Diagnostics) add(d Diagnostic) {
	switch n := len(*ds); {
	case n > maxReported:
		return
	case n == maxReported:
		d = Diagnostic{d.Pos, SeverityError, "there is more that is wrong; correct this first", "limit"}
	}
	d.Message = shortened(d.Message)
	*ds = append(*ds, d)
}

// maxMessage bounds a message, in bytes.
const maxMessage = 2000

// shortened cuts a message to maxMessage.
func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "…"
}

func (d Diagnostic) isError() bool { return d.Severity == SeverityError }

// A Duration is a length of time, written as Go does: 90s, 5m, 1h30m. A number
// without a unit is refused.
type Duration time.Duration

// String gives the duration as Go writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// Brief gives the duration as people write it: 5m, not 5m0s.
func (d Duration) Brief() string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText gives the duration as Go writes it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration as Go writes it.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write %s", text, cmp.Or(meantDuration(string(text)), "a number with a unit, such as 30s, 5m or 1h30m"))
	}
	*d = Duration(parsed)
	return nil
}

// otherDuration is a duration as people and other systems write it.
var otherDuration = regexp.MustCompile(`^(\d+) *([a-z]+)$`)

// otherUnits are what units are called elsewhere, in hours, minutes or seconds.
var otherUnits = map[string]struct {
	factor int
	unit   string
}{
	"s": {1, "s"}, "sec": {1, "s"}, "secs": {1, "s"}, "second": {1, "s"}, "seconds": {1, "s"}, "m": {1, "m"}, "min": {1, "m"}, "mins": {1, "m"}, "minute": {1, "m"}, "minutes": {1, "m"},
	"h": {1, "h"}, "hr": {1, "h"}, "hrs": {1, "h"}, "hour": {1, "h"}, "hours": {1, "h"}, "d": {24, "h"}, "day": {24, "h"}, "days": {24, "h"}, "w": {168, "h"}, "week": {168, "h"}, "weeks": {168, "h"},
}

// meantDuration is a duration as Go writes it, of one in other words: 5 minutes, 1d,
// PT5M, 1h 30m; "" = not known. Of a number alone it is not known.
func meantDuration(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	if m := otherDuration.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && otherUnits[m[2]].factor > 0 {
			return strconv.Itoa(n*otherUnits[m[2]].factor) + otherUnits[m[2]].unit
		}
	}
	joined := strings.TrimPrefix(strings.ReplaceAll(text, " ", ""), "pt")
	if _, err := time.ParseDuration(joined); err == nil && joined != text {
		return joined
	}
	return ""
}
