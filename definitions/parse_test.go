package definitions

import (
	"encoding/json"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/internal/perduretest"
)

func parseOne(t *testing.T, source string) *Definition {
	t.Helper()
	defs, diags := Parse("test.yaml", []byte(source))
	perduretest.NoError(t, diags.Err())
	if len(defs) != 1 {
		t.Fatalf("got %d definitions, want 1", len(defs))
	}
	return defs[0]
}

// TestExactValues shows what YAML scalars become where any value may stand.
func TestExactValues(t *testing.T) {
	t.Parallel()
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	tests := []struct {
		yaml string
		want any
	}{
		{"17", int64(17)},
		{"-0x1F", int64(-31)},
		{"1_000", int64(1000)},
		{"+5", int64(5)},
		{"0o17", int64(15)},
		{"0b11", int64(3)},
		{"9007199254740993", int64(9007199254740993)},
		{"123456789012345678901234567890", huge},
		{"1.50", template.Float(1.5)},
		{".5", template.Float(0.5)},
		{"5.", int64(5)},
		{"-00.25", template.Float(-0.25)},
		{"1e3", template.Float(1000)},
		{"true", true},
		{"yes", "yes"},
		{"null", nil},
		{"~", nil},
		{"''", ""},
		{"2026-01-01", "2026-01-01"},
		{"2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
		{"'17'", "17"},
		{"!!str 17", "17"},
		{"[1, {a: b}]", []any{int64(1), map[string]any{"a": "b"}}},
		{"{1: a, true: b, null: c}", map[string]any{"1": "a", "true": "b", "null": "c"}},
		{"{}", map[string]any{}},
		{"[]", []any{}},
	}
	for _, tt := range tests {
		t.Run(tt.yaml, func(t *testing.T) {
			t.Parallel()
			d := parseOne(t, "name: a\nsteps: [{arguments: {v: "+tt.yaml+"}}]")
			got := d.Steps[0].Arguments["v"]
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecode reads the kinds of fields that a configuration has.
func TestDecode(t *testing.T) {
	t.Parallel()
	type inner struct {
		Pos  Position `yaml:"-"`
		Port uint16   `yaml:"port"`
	}
	type base struct {
		Name string
	}
	type config struct {
		base     `yaml:"-"`
		Base     base `yaml:",inline"`
		Timeout  Duration
		Wait     time.Duration
		Servers  map[string]*inner
		List     []inner
		On       *bool
		Ratio    float64
		Raw      json.RawMessage
		Node     yaml.Node
		Any      any
		Hidden   string `yaml:"-"`
		Optional *inner `yaml:"optional,omitempty"`
	}
	source := `
name: n
timeout: 90s
wait: 1m
servers: {a: {port: 80}}
list: [{port: 1}, {port: 2}]
on: no
ratio: 1_0.5
raw: {b: 1, a: [1.0]}
node: [x]
any: 5
optional: null
`
	got, diags := decodeText[config](t, source)
	perduretest.NoError(t, diags.Err())
	off := false
	want := config{
		Base: base{"n"}, Timeout: Duration(90 * time.Second), Wait: time.Minute,
		Servers: map[string]*inner{"a": {Position{"c.yaml", 5, 14}, 80}},
		List:    []inner{{Position{"c.yaml", 6, 8}, 1}, {Position{"c.yaml", 6, 19}, 2}},
		On:      &off, Ratio: 10.5, Raw: json.RawMessage(`{"a":[1],"b":1}`), Any: int64(5),
	}
	if got.Node.Kind != yaml.SequenceNode {
		t.Errorf("node is of kind %v, want a sequence", got.Node.Kind)
	}
	got.Node = yaml.Node{}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(config{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestDecodeMistakes(t *testing.T) {
	t.Parallel()
	type config struct {
		Port   int8
		Size   uint
		On     bool
		Ratio  float64
		Wait   time.Duration
		Labels map[string]string
		Bad    map[int]string
		Chan   chan int
	}
	_, diags := decodeText[config](t, `
port: 1000
size: -1
on: 1
ratio: high
wait: 5
labels: [a]
bad: {1: x}
chan: 1
? [a]
: b
<<: 5
`)
	var got []string
	for _, d := range diags {
		got = append(got, d.String())
	}
	want := []string{
		`c.yaml:2:7: port: 1000 is out of range [type]`,
		`c.yaml:3:7: size: -1 is out of range [type]`,
		`c.yaml:4:5: on must be true or false, not "1" [type]`,
		`c.yaml:5:8: ratio must be a number, not the text "high" [type]`,
		`c.yaml:6:7: wait: "5" is not a duration: write a number with a unit, such as 30s, 5m or 1h30m [type]`,
		`c.yaml:7:9: labels must be a mapping, not a list [type]`,
		`c.yaml:8:6: bad: a map[int]string cannot be read from YAML [type]`,
		`c.yaml:9:7: chan: a chan int cannot be read from YAML [type]`,
		`c.yaml:10:3: the document: a key must be text [type]`,
		`c.yaml:12:5: the document: a merge key (<<) wants a mapping, not "5" [type]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}

func decodeText[T any](t *testing.T, source string) (into T, diags Diagnostics) {
	t.Helper()
	var node yaml.Node
	perduretest.NoError(t, yaml.Unmarshal([]byte(source), &node))
	diags = Decode("c.yaml", &node, &into)
	return into, diags
}

// TestSource shows that a definition and its source say the same.
func TestSource(t *testing.T) {
	t.Parallel()
	d := parseOne(t, `
steps:
- {id: a, tool: t, defaultResults: {}, timeout: 90s, arguments: {n: 12345678901234567890123, f: 0.1, l: [1e2, null]}}
- {id: e, type: forEach, collection: "[]", step: {tool: "<t>", onError: {action: retry, retryCount: 1}}}
description: d
name: n
timeout: 1h
output: {properties: {p: {type: integer, description: d, value: v, default: 0}}}
annotations: {readOnlyHint: false}
`)
	want := `{"annotations":{"readOnlyHint":false},"description":"d","name":"n",` +
		`"output":{"properties":{"p":{"default":0,"description":"d","type":"integer","value":"v"}}},` +
		`"steps":[{"arguments":{"f":0.1,"l":[100,null],"n":12345678901234567890123},"defaultResults":{},"id":"a","timeout":"1m30s","tool":"t"},` +
		`{"collection":"[]","id":"e","step":{"onError":{"action":"retry","retryCount":1},"tool":"<t>"},"type":"forEach"}],"timeout":"1h0m0s"}`
	if diff := cmp.Diff(want, string(d.Source())); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
	again := perduretest.Must(FromSource(d.Source()))(t)
	if d.Digest() != again.Digest() || !strings.HasPrefix(d.Digest(), "sha256:") {
		t.Errorf("digest %s became %s", d.Digest(), again.Digest())
	}
	if !again.Steps[0].DefaultResults.Given {
		t.Error("empty defaultResults were lost")
	}
	if _, ok := again.Steps[0].Arguments["n"].(*big.Int); !ok {
		t.Errorf("a large integer became %T", again.Steps[0].Arguments["n"])
	}
}

func TestFromSourceRefuses(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		``, `null`, `[]`, `{"name":"a"} {}`, `{"name":"a","later":1}`, `{"steps":[null]}`,
		`{"timeout":5}`, `{"output":{"properties":{"p":null}}}`, `{"parameters":{"n":1e999}}`,
	} {
		if d, err := FromSource([]byte(source)); err == nil {
			t.Errorf("FromSource(%s) gave %+v, want an error", source, d)
		}
	}
}

func TestDiagnostics(t *testing.T) {
	t.Parallel()
	ds := Diagnostics{
		{Position{"b.yaml", 1, 1}, SeverityError, "second", "x"},
		{Position{"a.yaml", 2, 3}, SeverityWarning, "first", ""},
		{Position{}, SeverityNote, "nowhere", "y"},
	}
	if err := ds.Err(); err == nil || err.Error() != "b.yaml:1:1: second [x]" {
		t.Errorf("Err() = %v", err)
	}
	if ds[1:].HasErrors() || ds[1:].Err() != nil {
		t.Error("a warning counts as an error")
	}
	ds.Sort()
	var got []string
	for _, d := range ds {
		got = append(got, d.String())
	}
	want := []string{"note: nowhere [y]", "a.yaml:2:3: warning: first", "b.yaml:1:1: second [x]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sorted (-want +got):\n%s", diff)
	}
}

// FuzzDefinition holds that no input makes Parse or Check panic or go on for ever,
// that what they accept survives its source, and that it compiles.
func FuzzDefinition(f *testing.F) {
	perduretest.AddFiles(f, "testdata/*/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		defs, diags := Parse("fuzz.yaml", data)
		for _, d := range defs {
			diags = append(diags, d.Pin(func(string) (string, error) { return "", fs.ErrNotExist })...)
		}
		if checked := Check(defs, CheckOptions{Tools: func(string) (Tool, bool) { return Tool{}, false }}); checked.HasErrors() || diags.HasErrors() {
			return
		}
		for _, d := range defs {
			again, err := FromSource(d.Source())
			if err != nil {
				t.Fatalf("reading back %s: %v", d.Source(), err)
			}
			if d.Digest() != again.Digest() {
				t.Errorf("%s became %s", d.Source(), again.Source())
			}
			if errs := Check([]*Definition{again}, CheckOptions{}).Err(); errs != nil {
				t.Errorf("%s is fine, but not after reading it back: %v", d.Source(), errs)
			}
			if _, err := Compile(d); err != nil {
				t.Errorf("%s is fine, but does not compile: %v", d.Source(), err)
			}
			d.OutputSchema()
			d.InputSchema()
		}
	})
}

// TestParseNode reads a definition out of a larger document.
func TestParseNode(t *testing.T) {
	t.Parallel()
	var config yaml.Node
	source := `compositeTools:
  - name: a
    description: d
    steps:
      - id: a
        tool: be_echo
        arguments:
          plain: é {{.steps.gone.status}}
          quoted: "x {{.steps.gone.status}}"
      - id: b
        tool: be_echo
        arguments:
          block: |
            one
            {{.steps.gone.status}}
  - just text
  - null
`
	perduretest.NoError(t, yaml.Unmarshal([]byte(source), &config))
	tools := config.Content[0].Content[1].Content
	var got []string
	for i, wantNil := range []bool{false, true, true} {
		d, diags := ParseNode("config.yaml", NewText([]byte(source)), tools[i])
		if (d == nil) != wantNil {
			t.Errorf("tool %d is %v", i, d)
		}
		for _, diag := range append(diags, Check([]*Definition{d}, CheckOptions{})...) {
			got = append(got, diag.String())
		}
	}
	want := []string{
		`config.yaml:8:22: step "a": arguments.plain reads step "gone", which does not exist [unknown-step]`,
		`config.yaml:9:24: step "a": arguments.quoted reads step "gone", which does not exist [unknown-step]`,
		`config.yaml:15:15: step "b": arguments.block reads step "gone", which does not exist [unknown-step]`,
		`config.yaml:16:5: the document must be a mapping, not the text "just text" [type]`,
		`config.yaml:17:5: the definition is empty [type]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
}
