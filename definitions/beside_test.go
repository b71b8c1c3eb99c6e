package definitions

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestBeside shows which calls have content blocks beside their structured content: those
// whose blocks a template reads, also of items and in what undoes a step.
func TestBeside(t *testing.T) {
	t.Parallel()
	d := parseOne(t, `
name: a
description: d
steps:
  - {id: read, tool: be_read, compensate: {tool: be_undo, arguments: {was: "{{.output.text}}"}}}
  - {id: plain, tool: be_read, dependsOn: [read]}
  - id: each
    type: forEach
    collection: "[1]"
    step: {type: forEach, collection: "[1]", step: {tool: be_read}, collect: "{{.output.resource}} {{.output.title}}"}
  - {id: code, type: script, script: "return be_read()"}
  - {id: last, tool: be_read, arguments: {a: "{{.steps.plain.output.image_0}} {{.steps.plain.content.text}} {{.steps.code.output.text}}"}, dependsOn: [plain, code]}
`)
	p := perduretest.Must(Compile(d))(t)
	for path, want := range map[StepPath]string{
		"read": "text", "plain": "image_0 text", "each[0]/step[3]": "resource", "last": "",
		"read/compensate#1": "", "code/main:1": "", "nowhere": "",
	} {
		if got := strings.Join(p.Beside(path), " "); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
