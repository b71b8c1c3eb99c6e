package deftest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/workflows"
)

// latency is how long a call takes by default. It is not zero, so that steps that may
// run at the same time do.
const latency = time.Millisecond

// A response is an answer of a tool, as written. At most one of the fields from
// Structured to Unauthorized is set; none = an empty result.
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

	Unauthorized *string `yaml:"unauthorized"` // a credential is missing: nothing was executed

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

// responses reads the responses of a tool: one for all calls, or a list.
func (p *parser) responses(c *Case, node *yaml.Node) []*response {
	var list []*response
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.SequenceNode:
		p.decode(node, &list)
	case yaml.ScalarNode:
		p.errorf(definitions.Position{File: p.file.Name, Line: node.Line, Column: node.Column}, "type", "a response must be a mapping: write {text: …}, {structured: {…}} or {error: …}")
	default:
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
		{"unauthorized", r.Unauthorized != nil},
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

// choose gives the response to a call: the first unused one, else the last again.
// Responses for certain calls come before those for any. nil = none.
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
	return (r.Step == "" || r.Step == string(call.StepPath) || r.Step == call.StepID) && (r.When == nil || includes(r.When, call.Arguments))
}

func (r *response) takes() time.Duration {
	if r.After == 0 {
		return latency
	}
	return time.Duration(r.After)
}

// outcome is the outcome of an attempt: an output, or an error as the activity that
// calls backends reports it.
func (r *response) outcome(call workflows.ToolCall, number int) (workflows.ToolResult, error) {
	attempt := workflows.Attempt{Call: call, Number: number}
	switch {
	case r.Error != nil:
		return workflows.ToolResult{}, workflows.Report(attempt.Answered(*r.Error))
	case r.Refused != nil:
		return workflows.ToolResult{}, workflows.Report(attempt.Refused(*r.Refused))
	case r.Unavailable != nil:
		return workflows.ToolResult{}, workflows.Report(attempt.Unavailable(*r.Unavailable))
	case r.Unauthorized != nil:
		return workflows.ToolResult{}, workflows.Report(attempt.Unauthorized(*r.Unauthorized))
	case r.Unknown != nil:
		return workflows.ToolResult{}, workflows.Report(attempt.Lost(*r.Unknown))
	}
	return attempt.Succeeded(r.Structured, r.blocks())
}

func (r *response) blocks() []workflows.ContentBlock {
	if r.Text != nil {
		return []workflows.ContentBlock{{Type: "text", Text: *r.Text}}
	}
	var blocks []workflows.ContentBlock
	for _, b := range r.Content {
		blocks = append(blocks, workflows.ContentBlock{Type: b.Type, Text: b.Text, Data: b.Data})
	}
	return blocks
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }
