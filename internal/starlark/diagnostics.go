package starlark

import (
	"fmt"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// A Diagnostic is a mistake found in a program without running it.
type Diagnostic struct {
	File    string
	Line    int // from 1
	Column  int // from 1
	Check   string
	Message string
}

// The checks of a Diagnostic.
const (
	CheckSyntax = "syntax" // it cannot be parsed, or uses what is not offered
	CheckName   = "name"   // nothing has the name
	CheckLoad   = "load"   // a module is missing, or loads itself
	CheckLimit  = "limit"  // it is too long or nested too deeply
)

func (d Diagnostic) String() string {
	return fmt.Sprintf("%s:%d:%d: %s [%s]", d.File, d.Line, d.Column, d.Message, d.Check)
}

// diagnosticAt is a mistake at a position of a file.
func diagnosticAt(file string, pos syntax.Position, check, format string, args ...any) Diagnostic {
	return Diagnostic{File: file, Line: int(pos.Line), Column: int(pos.Col), Check: check, Message: fmt.Sprintf(format, args...)}
}

// Diagnostics are in the order of the source.
type Diagnostics []Diagnostic

// Error gives one line for each diagnostic.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// diagnose makes diagnostics of an error of the parser or the resolver.
func diagnose(file string, err error) Diagnostics {
	switch err := err.(type) {
	case syntax.Error:
		check := CheckSyntax
		if err.Msg == "excessive nesting" {
			check = CheckLimit
		}
		message := err.Msg
		if message == "got newline, want ':'" { // where the next line begins
			message = "the line above lacks ':' at its end"
		}
		return Diagnostics{diagnosticAt(file, err.Pos, check, "%s", message)}
	case resolve.ErrorList:
		ds := make(Diagnostics, len(err))
		for i, e := range err {
			check := CheckSyntax
			if strings.HasPrefix(e.Msg, "undefined") {
				check = CheckName
			}
			ds[i] = diagnosticAt(file, e.Pos, check, "%s", e.Msg)
		}
		return ds
	}
	return Diagnostics{{File: file, Line: 1, Column: 1, Check: CheckSyntax, Message: err.Error()}}
}
