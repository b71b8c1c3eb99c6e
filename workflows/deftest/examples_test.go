package deftest_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/deftest"
)

// pages are those whose examples are run. A ```yaml block is a definition. The
// sentence before a ```json or ```text block says how it is called and what
// tools and people answer; the block is the result, the message of the error
// or, after "perdure validate", what is wrong with the definition.
var pages = []string{"language.md", "differences.md", "scripts.md"}

func TestExamplesOfThePages(t *testing.T) {
	t.Parallel()
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text := perduretest.Read(t, filepath.Join("..", "..", "docs", page))
			examples := readExamples(t, page, string(text))
			if len(examples) < 5 {
				t.Fatalf("%s has %d examples", page, len(examples))
			}
			for _, e := range examples {
				t.Run(fmt.Sprintf("line %d", e.line), func(t *testing.T) {
					t.Parallel()
					e.check(t)
				})
			}
		})
	}
}

// An example is a definition and the expected results of calling it.
type example struct {
	line   int
	source string
	calls  []call
}

// A call is a sentence and the block after it.
type call struct {
	line             int
	sentence, result string
	isError          bool // the block is text: a message, or diagnostics
}

// readExamples finds the blocks of a page. No block of these kinds is left out.
func readExamples(t *testing.T, page, text string) []*example {
	t.Helper()
	var examples []*example
	var paragraph []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		kind, fenced := strings.CutPrefix(lines[i], "```")
		switch {
		case !fenced && strings.TrimSpace(lines[i]) == "":
			if i+1 < len(lines) && !strings.HasPrefix(lines[i+1], "```") {
				paragraph = nil
			}
			continue
		case !fenced:
			paragraph = append(paragraph, lines[i])
			continue
		}
		start := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		block := strings.Join(lines[start:i], "\n")
		switch kind {
		case "yaml":
			examples = append(examples, &example{line: start, source: block})
		case "json", "text":
			if len(examples) == 0 {
				t.Fatalf("%s:%d: a result without a definition before it", page, start)
			}
			last := examples[len(examples)-1]
			last.calls = append(last.calls, call{start, strings.Join(paragraph, " "), block, kind == "text"})
		case "sh", "python", "":
		default:
			t.Errorf("%s:%d: a block of kind %q", page, start, kind)
		}
		paragraph = nil
	}
	return examples
}

func (e *example) check(t *testing.T) {
	defs, diags := readDefinitions(t, e.source)
	diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...)
	diags.Sort()
	var told []string
	for _, d := range diags {
		told = append(told, d.String())
	}
	want := ""
	for _, c := range e.calls {
		if c.isError && strings.Contains(c.sentence, "perdure validate") {
			want = c.result
		}
	}
	if diff := cmp.Diff(want, strings.Join(told, "\n")); diff != "" {
		t.Errorf("perdure validate (-page +got):\n%s", diff)
	}
	for _, c := range e.calls {
		if !strings.Contains(c.sentence, "perdure validate") && !diags.HasErrors() {
			c.check(t, defs[0])
		}
	}
}

// readDefinitions reads a block that is a file, or a configuration with
// compositeTools.
func readDefinitions(t *testing.T, source string) ([]*definitions.Definition, definitions.Diagnostics) {
	if !strings.HasPrefix(source, "compositeTools:") {
		return definitions.Parse("tool.yaml", []byte(source))
	}
	var config struct {
		CompositeTools []yaml.Node `yaml:"compositeTools"`
	}
	perduretest.NoError(t, yaml.Unmarshal([]byte(source), &config))
	var defs []*definitions.Definition
	var diags definitions.Diagnostics
	for i := range config.CompositeTools {
		d, more := definitions.ParseNode("tool.yaml", definitions.NewText([]byte(source)), &config.CompositeTools[i])
		defs, diags = append(defs, d), append(diags, more...)
	}
	return defs, diags
}

type object = map[string]any

// What sentences say.
var (
	calledWith = regexp.MustCompile("[Cc]alled with `(\\{[^`]*\\})`")
	takes      = regexp.MustCompile("`([\\w.-]+)` takes `(\\{[^`]*\\})`")
	declared   = regexp.MustCompile("`([\\w.-]+)` is declared `(\\w+)`")
	toolSays   = regexp.MustCompile("`([\\w.-]+)` (answers the text|answers|fails with|loses its answer)(?: `([^`]*)`)?( after `\\w+`)?")
	person     = regexp.MustCompile("(?:the person|a person) (accepts|declines|dismisses)(?: it)?(?: for `([^`]+)`)?(?: with `(\\{[^`]*\\})`)?(?: after `(\\w+)`)?")
	receives   = regexp.MustCompile("`([\\w.-]+)` receives `(\\{[^`]*\\})`")
	isCalled   = regexp.MustCompile("`([\\w.-]+)` is called (never|once|twice)")
	code       = regexp.MustCompile("code `(\\w+)`")
	undone     = regexp.MustCompile("undoes ((?:`[^`]+`(?:, then )?)+)")
	quoted     = regexp.MustCompile("`([^`]+)`")
)

var actions = map[string]string{"accepts": "accept", "declines": "decline", "dismisses": "cancel"}

// check calls the definition as the sentence says and compares the result.
// Tools that the sentence does not mention answer with their arguments.
func (c call) check(t *testing.T, d *definitions.Definition) {
	tools, answers, calls := object{}, []any{}, object{}
	tool := func(name string) object {
		if tools[name] == nil {
			tools[name] = object{}
		}
		return tools[name].(object)
	}
	for _, m := range takes.FindAllStringSubmatch(c.sentence, -1) {
		tool(m[1])["inputSchema"] = object{"type": "object", "properties": json.RawMessage(m[2])}
	}
	for _, m := range declared.FindAllStringSubmatch(c.sentence, -1) {
		tool(m[1])["effect"] = m[2]
	}
	for _, m := range toolSays.FindAllStringSubmatch(c.sentence, -1) {
		returns, _ := tool(m[1])["returns"].([]any)
		tool(m[1])["returns"] = append(returns, response(m))
	}
	for _, m := range person.FindAllStringSubmatch(c.sentence, -1) {
		answer := object{"action": actions[m[1]]}
		if m[2] != "" {
			answer["step"] = m[2]
		}
		if m[3] != "" {
			answer["content"] = json.RawMessage(m[3])
		}
		if m[4] != "" {
			answer["after"] = m[4]
		}
		answers = append(answers, answer)
	}
	for _, m := range receives.FindAllStringSubmatch(c.sentence, -1) {
		list, _ := calls[m[1]].([]any)
		calls[m[1]] = append(list, object{"arguments": json.RawMessage(m[2])})
	}
	for _, m := range isCalled.FindAllStringSubmatch(c.sentence, -1) {
		calls[m[1]] = map[string]int{"never": 0, "once": 1, "twice": 2}[m[2]]
	}
	expect := object{"calls": calls}
	if c.isError {
		failure := object{"message": "^" + regexp.QuoteMeta(strings.TrimSpace(c.result)) + "$"}
		if m := code.FindStringSubmatch(c.sentence); m != nil {
			failure["code"] = m[1]
		}
		expect["error"] = failure
	} else {
		expect["result"] = json.RawMessage(c.result)
	}
	if m := undone.FindStringSubmatch(c.sentence); m != nil {
		var paths []string
		for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
			paths = append(paths, q[1])
		}
		expect["compensated"] = paths
	}
	test := object{"name": "example", "expect": expect, "answers": answers}
	if m := calledWith.FindStringSubmatch(c.sentence); m != nil {
		test["arguments"] = json.RawMessage(m[1])
	} else {
		t.Fatalf("line %d: the sentence does not say what the tool is called with: %s", c.line, c.sentence)
	}
	c.run(t, object{"definition": d.Source(), "tools": tools, "default": "echo", "cases": []any{test}})
}

// response is what a sentence says of a tool's answer.
func response(m []string) object {
	r := object{}
	switch m[2] {
	case "answers":
		r["structured"] = json.RawMessage(m[3])
	case "answers the text":
		r["text"] = m[3]
	case "fails with":
		r["error"] = m[3]
	default:
		r["unknown"] = "the connection broke"
	}
	if after := strings.Trim(strings.TrimPrefix(m[4], " after "), "`"); after != "" {
		r["after"] = after
	}
	return r
}

func (c call) run(t *testing.T, test object) {
	source, err := json.Marshal(test)
	if err != nil {
		t.Fatalf("line %d: %v", c.line, err)
	}
	file, diags := deftest.Parse("page_test.yaml", source, deftest.Sources{})
	if err := diags.Err(); err != nil {
		t.Fatalf("line %d: %v\n%s", c.line, err, source)
	}
	for _, result := range file.Cases {
		for _, p := range result.Run().Problems {
			t.Errorf("line %d: %s\n%s", c.line, p.Message, p.Diff)
		}
	}
}
