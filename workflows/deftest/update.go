package deftest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// Update replaces the expected results in the text of a test file by those that its
// cases had, and gives how many. It replaces only expect.result of a run that
// completed. The rest of the file stays as it is, with its comments; comments within
// a result stay as long as their lines do.
func Update(data []byte, results []*Result) ([]byte, int, error) {
	replaced := 0
	for _, res := range slices.Backward(results) { // so that lines above stay where they are
		if !res.outdated() {
			continue
		}
		updated, err := replaceResult(data, res.Case.index, res.Trace.Output)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: updating the result of %q: %w", res.Case.Pos, res.Case.Name, err)
		}
		data = updated
		replaced++
	}
	return data, replaced, nil
}

// outdated reports whether the expected result is to be replaced.
func (res *Result) outdated() bool {
	want := res.Case.written.Expect.Result
	return want != nil && res.Trace.Failure == nil && res.Trace.Output != nil && difference(want, res.Trace.Output, false) != ""
}

// replaceResult replaces cases[index].expect.result.
func replaceResult(data []byte, index int, result json.RawMessage) ([]byte, error) {
	value, err := template.DecodeValue(result)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	want, err := wanted(&doc, index, value)
	if err != nil {
		return nil, err
	}
	for _, attempt := range []func([]byte, *yaml.Node, int, any) ([]byte, error){splice, reencode} {
		updated, err := attempt(data, &doc, index, value)
		if err == nil && holds(updated, want) {
			return updated, nil
		}
	}
	return nil, errors.New("the result is written in a way that cannot be replaced, with aliases perhaps; replace it by hand")
}

// wanted is the value of the whole document after the change.
func wanted(doc *yaml.Node, index int, value any) (any, error) {
	var all any
	if err := definitions.Decode("", doc, &all).Err(); err != nil {
		return nil, err
	}
	root, _ := all.(map[string]any)
	cases, _ := root["cases"].([]any)
	if index >= len(cases) {
		return nil, errors.New("the case is gone")
	}
	c, _ := cases[index].(map[string]any)
	expect, ok := c["expect"].(map[string]any)
	if !ok {
		return nil, errors.New("the case has no expect")
	}
	expect["result"] = value
	return all, nil
}

func holds(data []byte, want any) bool {
	var doc yaml.Node
	var got any
	return yaml.Unmarshal(data, &doc) == nil && !definitions.Decode("", &doc, &got).HasErrors() && equal(want, got)
}

// resultPair finds the key and the value of a case's expected result.
func resultPair(doc *yaml.Node, index int) (expect, key, value *yaml.Node, err error) {
	node := doc.Content[0]
	for _, step := range []any{"cases", index, "expect"} {
		if node = definitions.Child(node, step); node == nil {
			return nil, nil, nil, fmt.Errorf("there is no %v", step)
		}
	}
	for key, value := range definitions.Members(node) {
		if key.Value == "result" {
			return node, key, value, nil
		}
	}
	return nil, nil, nil, errors.New("there is no result")
}

// splice replaces the lines of the result and leaves all others as they are.
func splice(data []byte, doc *yaml.Node, index int, result any) ([]byte, error) {
	expect, key, value, err := resultPair(doc, index)
	if err != nil {
		return nil, err
	}
	if expect.Style&yaml.FlowStyle != 0 {
		return nil, errors.New("the result does not stand on lines of its own")
	}
	bare := *key
	bare.HeadComment, bare.FootComment = "", ""
	text, err := encode(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{&bare, revised(value, result)}})
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(data), "\n")
	first := key.Line - 1
	last := lastLine(lines, first, key.Column-1)
	prefix := lines[first][:key.Column-1]
	indent := strings.Repeat(" ", key.Column-1)
	var b strings.Builder
	b.WriteString(strings.Join(lines[:first], ""))
	for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case i == 0:
			b.WriteString(prefix + l + "\n")
		case l == "":
			b.WriteString("\n")
		default:
			b.WriteString(indent + l + "\n")
		}
	}
	b.WriteString(strings.Join(lines[last+1:], ""))
	return []byte(b.String()), nil
}

// lastLine is the last line of the value of a key with this indentation.
func lastLine(lines []string, first, indent int) int {
	last := first
	for i := first + 1; i < len(lines); i++ {
		content := strings.TrimLeft(lines[i], " ")
		if strings.TrimSpace(content) == "" {
			continue
		}
		sequence := len(lines[i])-len(content) == indent && strings.HasPrefix(content, "- ")
		if len(lines[i])-len(content) <= indent && !sequence {
			break
		}
		last = i
	}
	return last
}

// reencode changes the document and writes all of it anew: comments stay,
// blank lines do not.
func reencode(_ []byte, doc *yaml.Node, index int, result any) ([]byte, error) {
	expect, key, value, err := resultPair(doc, index)
	if err != nil {
		return nil, err
	}
	i := slices.Index(expect.Content, key)
	expect.Content[i+1] = revised(value, result)
	text, err := encode(doc)
	return []byte(text), err
}

func encode(node *yaml.Node) (string, error) {
	var b bytes.Buffer
	d, err := yaml.NewDumper(&b, yaml.WithIndent(2), yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(-1))
	if err == nil {
		err = d.Dump(node)
	}
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	return b.String(), nil
}

// revised is a node with another value; parts that are equal stay as written.
func revised(old *yaml.Node, value any) *yaml.Node {
	var was any
	if !definitions.Decode("", old, &was).HasErrors() && equal(was, value) {
		return old
	}
	switch value := value.(type) {
	case map[string]any:
		if old.Kind == yaml.MappingNode && len(value) > 0 {
			return revisedMapping(old, value)
		}
	case []any:
		if old.Kind == yaml.SequenceNode && len(value) > 0 {
			node := *old
			node.Content = nil
			for i, v := range value {
				if i < len(old.Content) {
					node.Content = append(node.Content, revised(old.Content[i], v))
				} else {
					node.Content = append(node.Content, written(v))
				}
			}
			return &node
		}
	}
	node := written(value)
	node.HeadComment, node.LineComment, node.FootComment = old.HeadComment, old.LineComment, old.FootComment
	return node
}

func revisedMapping(old *yaml.Node, value map[string]any) *yaml.Node {
	node := *old
	node.Content = nil
	had := map[string]bool{}
	for key, was := range definitions.Members(old) {
		if v, stays := value[key.Value]; stays {
			had[key.Value] = true
			node.Content = append(node.Content, key, revised(was, v))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(value)) {
		if !had[key] {
			node.Content = append(node.Content, written(key), written(value[key]))
		}
	}
	return &node
}

// written is a value as a new node.
func written(value any) *yaml.Node {
	switch value := value.(type) {
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(value)}
	case int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(value, 10)}
	case *big.Int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: value.String()}
	case template.Float:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: value.String()}
	case string:
		return writtenText(value)
	case []any:
		node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, v := range value {
			node.Content = append(node.Content, written(v))
		}
		if len(value) == 0 {
			node.Style = yaml.FlowStyle
		}
		return node
	case map[string]any:
		node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			node.Content = append(node.Content, written(key), written(value[key]))
		}
		if len(value) == 0 {
			node.Style = yaml.FlowStyle
		}
		return node
	default:
		return writtenText(fmt.Sprint(value)) // never: DecodeValue gives nothing else
	}
}

// writtenText quotes text that a block would change, and leaves the rest to the
// encoder.
func writtenText(s string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case strings.ContainsAny(s, "\t\r") || strings.HasPrefix(s, "\n") || strings.HasPrefix(s, " "):
		node.Style = yaml.DoubleQuotedStyle
	case strings.Contains(s, "\n"):
		node.Style = yaml.LiteralStyle
	}
	return node
}
