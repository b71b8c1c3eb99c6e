package definitions

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions/template"
)

// A Probe asks a read tool whether a call of unknown outcome was executed.
// Its templates see .call besides what the step sees; all but those of the
// arguments see .output, that of the read tool.
type Probe struct {
	Tool        string         `yaml:"tool" json:"tool"`                                   // of class read; in a configuration, of the same backend
	Arguments   map[string]any `yaml:"arguments,omitempty" json:"arguments,omitempty"`     // strings at any depth are templates
	Delay       Duration       `yaml:"delay,omitempty" json:"delay,omitempty"`             // before it is called; 0 = DefaultProbeDelay
	Timeout     Duration       `yaml:"timeout,omitempty" json:"timeout,omitempty"`         // all attempts together; 0 = DefaultStepTimeout
	Happened    string         `yaml:"happened,omitempty" json:"happened,omitempty"`       // a template that gives true or false: the call was executed
	NotHappened string         `yaml:"notHappened,omitempty" json:"notHappened,omitempty"` // the same: it was not, and is made again
	Result      string         `yaml:"result,omitempty" json:"result,omitempty"`           // a template that gives the output of the call, an object; "" = {}
}

// DefaultProbeDelay is how long a probe waits before its call: a call whose answer was
// lost may still be under way.
const DefaultProbeDelay = 5 * time.Second

// A Finding is the result of a probe.
type Finding struct {
	Happened, NotHappened bool            // at most one; none = still unknown
	Result                json.RawMessage // of a call that happened
}

// A ProbeProgram is a compiled probe.
type ProbeProgram struct {
	Probe *Probe

	arguments                     template.Argument
	happened, notHappened, result *template.Template
	schema                        template.SchemaCache
}

// CompileProbe compiles a probe. The error is a *template.FieldError.
func CompileProbe(p *Probe) (*ProbeProgram, error) {
	if p == nil {
		return nil, nil
	}
	program := &ProbeProgram{Probe: p}
	var err error
	for _, f := range []struct {
		name, text string
		into       **template.Template
	}{
		{"probe.happened", p.Happened, &program.happened},
		{"probe.notHappened", p.NotHappened, &program.notHappened},
		{"probe.result", p.Result, &program.result},
	} {
		if *f.into, err = compileField(f.name, f.text); err != nil {
			return nil, err
		}
	}
	program.arguments, err = template.ParseArgument(orEmpty(p.Arguments), "probe.arguments")
	return program, err
}

// CheckAlone reports mistakes in a probe of a configuration, whose templates see only
// .call and .output.
func (p *Probe) CheckAlone() error {
	program, err := CompileProbe(p)
	switch {
	case err != nil:
		return err
	case p.Tool == "":
		return errors.New("tool is required: the read tool that knows whether a call was executed")
	case p.Happened == "" && p.NotHappened == "":
		return errors.New("happened or notHappened is required: how to tell by the output of the tool")
	case p.Delay < 0 || p.Timeout < 0:
		return errors.New("delay and timeout must not be negative")
	}
	for _, t := range program.templates() {
		for _, ref := range t.Refs() {
			if ref.Root != "call" && ref.Root != "output" {
				return fmt.Errorf("a template reads .%s; the probe of a tool sees .call and .output only", ref.Root)
			}
		}
	}
	return nil
}

func (p *ProbeProgram) templates() []*template.Template {
	if p == nil {
		return nil
	}
	return append(p.arguments.Templates(), p.happened, p.notHappened, p.result)
}

// Delay is how long to wait before the call.
func (p *ProbeProgram) Delay() time.Duration {
	return time.Duration(cmp.Or(p.Probe.Delay, Duration(DefaultProbeDelay)))
}

// Timeout is how long the call of the tool may take.
func (p *ProbeProgram) Timeout() time.Duration {
	return time.Duration(cmp.Or(p.Probe.Timeout, Duration(DefaultStepTimeout)))
}

// Arguments expands the arguments of the read tool, as those of a step.
func (p *ProbeProgram) Arguments(s *Scope, inputSchema json.RawMessage) (json.RawMessage, error) {
	return encoded("probe.arguments", p.arguments, s, &p.schema, inputSchema)
}

// Find reads the output of the tool, which is Output of the scope.
func (p *ProbeProgram) Find(s *Scope) (Finding, error) {
	var f Finding
	var err error
	if f.Happened, err = holdsIfGiven("probe.happened", p.happened, s); err != nil {
		return Finding{}, err
	}
	if f.NotHappened, err = holdsIfGiven("probe.notHappened", p.notHappened, s); err != nil {
		return Finding{}, err
	}
	if f.Happened && f.NotHappened {
		return Finding{}, template.InField("probe", errors.New("happened and notHappened are both true"))
	}
	if f.Happened {
		f.Result, err = p.found(s)
	}
	return f, err
}

// holdsIfGiven reports whether a template holds; an empty one does not.
func holdsIfGiven(field string, t *template.Template, s *Scope) (bool, error) {
	if t.Source() == "" {
		return false, nil
	}
	return holds(field, t, s)
}

// found gives the output of a call that happened.
func (p *ProbeProgram) found(s *Scope) (json.RawMessage, error) {
	if strings.TrimSpace(p.Probe.Result) == "" {
		return json.RawMessage("{}"), nil
	}
	v, ok, err := p.result.ExpandAs(s.Data(), []string{"object"})
	if err != nil {
		return nil, template.InField("probe.result", err)
	}
	object, isObject := v.(map[string]any)
	if !ok || !isObject {
		return nil, template.InField("probe.result", fmt.Errorf("must give an object, not %s", template.Describe(v)))
	}
	return template.EncodeValue(object)
}
