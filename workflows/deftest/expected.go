package deftest

import (
	"encoding/json"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// expectation is what must be true of a run. Without an expected error the run must
// complete; anything else that is not written may be as it likes.
type expectation struct {
	Result         json.RawMessage      `yaml:"result" meant:"output,outputs,returns,value"` // exactly
	ResultIncludes json.RawMessage      `yaml:"resultIncludes"`                              // among other things
	Error          *expectedError       `yaml:"error"`
	Calls          map[string]yaml.Node `yaml:"calls" meant:"called,tools,toolCalls"` // by tool: how often; or a mapping; or a list
	TotalCalls     *int                 `yaml:"totalCalls"`
	Order          []string             `yaml:"order"` // "a before b", of steps and tools
	Completed      []string             `yaml:"completed"`
	Failed         []string             `yaml:"failed"`
	Skipped        []string             `yaml:"skipped"`
	Compensated    []string             `yaml:"compensated"`
	Elicitations   []*expectedQuestion  `yaml:"elicitations"` // all of them, in order; [] = none
	Duration       *expectedDuration    `yaml:"duration"`

	Pos definitions.Position `yaml:"-"`
}

// expectedError is the expectation for the error of a run that does not complete.
type expectedError struct {
	Code     string  `yaml:"code"`
	Category string  `yaml:"category"`
	Step     string  `yaml:"step"` // id or path
	Tool     string  `yaml:"tool"`
	Message  pattern `yaml:"message"`

	Pos definitions.Position `yaml:"-"`
}

// expectedCalls is the expectation for all calls of a tool.
type expectedCalls struct {
	Count     *int            `yaml:"count"`
	Arguments json.RawMessage `yaml:"arguments"` // that each call includes

	Pos definitions.Position `yaml:"-"`
}

// expectedCall is the expectation for one call of a tool.
type expectedCall struct {
	Step      string          `yaml:"step"` // path
	Arguments json.RawMessage `yaml:"arguments"`

	Pos definitions.Position `yaml:"-"`
}

// expectedQuestion is the expectation for an elicitation.
type expectedQuestion struct {
	Step    string          `yaml:"step"` // id or path
	Message pattern         `yaml:"message"`
	Schema  json.RawMessage `yaml:"schema"` // that it includes
	State   string          `yaml:"state"`  // answered, expired, dropped
	Action  string          `yaml:"action"` // of the answer that counted

	Pos definitions.Position `yaml:"-"`
}

// expectedDuration bounds how long the run takes, in its own time.
type expectedDuration struct {
	AtLeast *definitions.Duration `yaml:"atLeast"`
	AtMost  *definitions.Duration `yaml:"atMost"`
}

// A pattern is a regular expression that text must match somewhere. The zero
// value matches everything.
type pattern struct{ *regexp.Regexp }

// UnmarshalText compiles a regular expression.
func (p *pattern) UnmarshalText(text []byte) error {
	re, err := template.CompilePattern(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a regular expression: %w", text, err)
	}
	p.Regexp = re
	return nil
}

func (p pattern) matches(text string) bool { return p.Regexp == nil || p.MatchString(text) }

func (p pattern) String() string {
	if p.Regexp == nil {
		return ""
	}
	return p.Regexp.String()
}
