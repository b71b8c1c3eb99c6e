package deftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
)

// latency is how long a call takes that nothing is said of. It is not zero, so
// that steps that may run at the same time do.
const latency = time.Millisecond

// A response is what a tool answers, as written. One of the fields up to
// Unavailable is given, or none for an empty result.
type response struct {
	When json.RawMessage `yaml:"when"` // what the arguments include; nil = anything
	Step string          `yaml:"step"` // id or path of the step that calls; "" = any

	Structured json.RawMessage `yaml:"structured"`
	Text       *string         `yaml:"text"`
	Content    []block         `yaml:"content"`

	Error       *string `yaml:"error"`       // the tool answers with an error: a known outcome
	Unknown     *string `yaml:"unknown"`     // the answer is lost: the call may have been executed
	Refused     *string `yaml:"refused"`     // the backend refuses the request
	Unavailable *string `yaml:"unavailable"` // the backend cannot be reached: nothing was executed

	After definitions.Duration `yaml:"after"` // how long it takes; 0 = latency

	Pos definitions.Position `yaml:"-"`

	used bool
}

// A block is a content block of a result.
type block struct {
	Type     string `yaml:"type"` // text, image, audio, resource, resource_link
	Text     string `yaml:"text"`
	Data     string `yaml:"data"` // base64
	MIMEType string `yaml:"mimeType"`
	URI      string `yaml:"uri"`
}

// responses reads what a tool answers: one response for all calls, or a list.
func (p *parser) responses(c *Case, node *yaml.Node) []*response {
	var list []*response
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.SequenceNode {
		p.decode(node, &list)
	} else {
		var one response
		p.decode(node, &one)
		list = append(list, &one)
	}
	for _, r := range list {
		p.response(r)
		if r.Step != "" {
			p.step(c, r.Pos, "step", r.Step)
		}
	}
	return list
}

func (p *parser) response(r *response) {
	var kinds []string
	for _, kind := range []struct {
		name  string
		given bool
	}{
		{"structured", r.Structured != nil}, {"text", r.Text != nil}, {"content", r.Content != nil}, {"error", r.Error != nil},
		{"unknown", r.Unknown != nil}, {"refused", r.Refused != nil}, {"unavailable", r.Unavailable != nil},
	} {
		if kind.given {
			kinds = append(kinds, kind.name)
		}
	}
	if both := slices.Equal(kinds, []string{"structured", "text"}) || slices.Equal(kinds, []string{"structured", "content"}); len(kinds) > 1 && !both {
		p.errorf(r.Pos, "value", "a tool answers in one way, not with %s", strings.Join(kinds, " and "))
	}
	if r.When != nil && !isObject(r.When) {
		p.errorf(r.Pos, "type", "when must be a mapping: what the arguments include")
	}
	if r.After < 0 {
		p.errorf(r.Pos, "value", "after: %s is in the past", r.After)
	}
}

// choose gives the response to a call: the first that was not used yet, or else
// the last again. Those that say which calls they are for come before those
// that do not. It is nil if there is none.
func choose(list []*response, call workflows.ToolCall) *response {
	var specific, general []*response
	for _, r := range list {
		switch {
		case r.When == nil && r.Step == "":
			general = append(general, r)
		case r.fits(call):
			specific = append(specific, r)
		}
	}
	fitting := specific
	if fitting == nil {
		fitting = general
	}
	if fitting == nil {
		return nil
	}
	if i := slices.IndexFunc(fitting, func(r *response) bool { return !r.used }); i >= 0 {
		return fitting[i]
	}
	return fitting[len(fitting)-1]
}

func (r *response) fits(call workflows.ToolCall) bool {
	return (r.Step == "" || r.Step == call.StepPath || r.Step == call.StepID) && (r.When == nil || includes(r.When, call.Arguments))
}

func (r *response) takes() time.Duration {
	if r.After == 0 {
		return latency
	}
	return time.Duration(r.After)
}

// outcome is what an attempt of a call comes to: an output, or an error as the
// activity that calls backends reports it.
func (r *response) outcome(call workflows.ToolCall, attempt int) (workflows.ToolResult, error) {
	f := failure{call: call, attempt: attempt}
	switch {
	case r.Error != nil:
		return workflows.ToolResult{}, f.answered(*r.Error)
	case r.Refused != nil:
		return workflows.ToolResult{}, f.refused(*r.Refused)
	case r.Unavailable != nil:
		return workflows.ToolResult{}, f.unavailable(*r.Unavailable)
	case r.Unknown != nil:
		return workflows.ToolResult{}, f.lost(*r.Unknown)
	}
	output, err := r.output()
	if err != nil {
		return workflows.ToolResult{}, f.report("invalid_output", workflows.CategoryTool, false, call.Tool+": "+err.Error())
	}
	if len(output) > workflows.MaxResultSize {
		return workflows.ToolResult{}, f.report("output_too_large", workflows.CategoryLimit, false,
			fmt.Sprintf("%s: the output has %d bytes; the limit is %d: ask the tool for less", call.Tool, len(output), workflows.MaxResultSize))
	}
	return workflows.ToolResult{Output: output}, nil
}

// output is the result as steps see it: structured where that is an object,
// otherwise the content blocks by name.
func (r *response) output() (json.RawMessage, error) {
	if isObject(r.Structured) {
		return r.Structured, nil
	}
	content := r.Content
	if r.Text != nil {
		content = []block{{Type: "text", Text: *r.Text}}
	}
	out := map[string]any{}
	var texts, images, resources int
	for _, c := range content {
		switch c.Type {
		case "text":
			out[numbered("text", texts)] = c.Text
			texts++
		case "image":
			out[fmt.Sprintf("image_%d", images)] = c.Data
			images++
		case "resource":
			out[numbered("resource", resources)] = c.Text + c.Data
			resources++
		}
	}
	return definitions.EncodeValue(out)
}

func numbered(name string, n int) string {
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, n)
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

// A failure says what went wrong with one attempt of a call, and whether it
// may be repeated. It must say it as the package activities does; a test holds
// the two against each other.
type failure struct {
	call    workflows.ToolCall
	attempt int
}

// What stands between the name of a tool and what went wrong with it, and what
// follows where the outcome is not known. Recording takes messages apart again.
const (
	answeredWords    = " failed: "
	refusedWords     = " was refused: "
	lostWords        = " gave no answer: "
	unavailableWords = " was not called, backend "
	unreachableWords = " cannot be reached: "
	unknownText      = "; whether %s was executed is not known, so it is not called again"
)

func (f failure) answered(text string) error {
	if text == "" {
		text = "the backend gave no reason"
	}
	return f.reportRetryable("tool_error", workflows.CategoryTool, f.attempt < f.call.MaxAttempts, true, f.call.Tool+answeredWords+text)
}

func (f failure) refused(text string) error {
	return f.report("refused", workflows.CategoryTool, f.attempt < f.call.MaxAttempts, f.call.Tool+refusedWords+text)
}

func (f failure) unavailable(text string) error {
	return f.reportRetryable("backend_unavailable", workflows.CategoryTool, true, true,
		f.call.Tool+unavailableWords+f.call.Backend+unreachableWords+text)
}

func (f failure) lost(text string) error {
	message := f.call.Tool + lostWords + text
	if workflows.Repeatable(f.call.Effect) {
		return f.reportRetryable("connection_lost", workflows.CategoryTool, true, true, message)
	}
	return f.reportRetryable("connection_lost", workflows.CategoryOutcomeUnknown, false, false, message+fmt.Sprintf(unknownText, f.call.Tool))
}

// report makes an error that says that calling again does not help.
func (f failure) report(code string, category workflows.Category, repeat bool, message string) error {
	return f.reportRetryable(code, category, repeat, false, message)
}

// reportRetryable makes an error as Temporal knows it. repeat is for Temporal,
// retryable for the client.
func (f failure) reportRetryable(code string, category workflows.Category, repeat, retryable bool, message string) error {
	e := workflows.Error{
		Code: code, Category: category, Message: "step " + f.call.StepPath + ": " + message,
		StepID: f.call.StepID, StepPath: f.call.StepPath, Tool: f.call.Tool, Attempt: f.attempt, Retryable: retryable, RunID: f.call.RunID,
	}
	return temporal.NewApplicationErrorWithOptions(e.Message, string(e.Category),
		temporal.ApplicationErrorOptions{NonRetryable: !repeat, Details: []any{e}})
}
