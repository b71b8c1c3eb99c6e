package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// scope is the data of a template that stays a template: the parts that it reads.
func (d *dot) scope(field string, t *template.Template) (string, error) {
	roots := map[string][][]string{}
	for _, path := range t.Reads() {
		if len(path) == 0 {
			return "", d.fail(field, "the template reads its data as a whole, which a script does not have: name what it reads")
		}
		roots[path[0]] = append(roots[path[0]], path[1:])
	}
	var parts []string
	add := func(root, code string) { parts = append(parts, starlarkText(root)+": "+code) }
	for _, root := range template.SortedKeys(roots) {
		switch root {
		case "params":
			add(root, d.converter.params)
		case "output":
			if d.output != "" {
				add(root, d.output)
			}
		case "call":
			if d.call != "" {
				add(root, d.call)
			}
		case "vars":
			add(root, "{}")
		case "steps", "forEach", "workflow":
			code, err := d.members(field, root, roots[root])
			if err != nil {
				return "", err
			}
			add(root, code)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// members is the dict of the members of a root that a template reads.
func (d *dot) members(field, root string, paths [][]string) (string, error) {
	var names []string
	for _, path := range paths {
		switch {
		case len(path) == 0 && root == "forEach":
			names = append(names, template.SortedKeys(d.forEach)...)
		case len(path) == 0 && root == "steps" && d.every:
			names = append(names, template.SortedKeys(d.steps)...)
		case len(path) == 0:
			return "", d.fail(field, "the template reads .%s as a whole, and which step has ended when is not known to a script: name what it reads", root)
		default:
			names = append(names, path[0])
		}
	}
	slices.Sort(names)
	var parts []string
	for _, name := range slices.Compact(names) {
		code, ok := "", false
		switch root {
		case "forEach":
			code, ok = d.forEach[name]
		case "steps":
			var step state
			step, ok = d.steps[name]
			d.converter.readsReasons = d.converter.readsReasons || slices.ContainsFunc(paths, readsReason)
			if code = step.whole(); ok && !step.plain && slices.ContainsFunc(paths, func(path []string) bool { return len(path) < 2 || !slices.Contains(stateFields, path[1]) }) {
				code = fmt.Sprintf("seen(%s)", code)
			}
			if ok && d.converter.givesBlocks(name) && slices.ContainsFunc(paths, readsContent) {
				code = fmt.Sprintf("with_blocks(%s)", code)
			}
			if ok && d.converter.asks(name) && slices.ContainsFunc(paths, readsContent) {
				code = fmt.Sprintf("with_content(%s)", code)
			}
		case "workflow":
			var e expression
			if e, ok = d.workflow(name); !ok {
				return "", d.fail(field, ".workflow.%s is not known to a script there: leave it out", name)
			}
			code = e.code
		}
		if ok {
			parts = append(parts, starlarkText(name)+": "+code)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// readsContent reports whether a path below .steps may lead to the content of a step.
func readsContent(path []string) bool { return len(path) < 2 || path[1] == "content" }

// readsReason reports whether a path below .steps may lead to the reason of a step.
func readsReason(path []string) bool { return len(path) < 2 || path[1] == "reason" }

// stateFields are those of .steps.ID.
var stateFields = []string{"status", "output", "error", "action", "content", "by", "at", "reason"}

// workflow is a field of the run.
func (d *dot) workflow(name string) (expression, bool) {
	switch name {
	case "id":
		return known("run.id", "string"), true
	case "duration_ms":
		return known("(now() - run.started).milliseconds", "int"), !d.timeless
	case "step_count":
		return known(strconv.Itoa(len(d.steps)), "int"), d.every && !d.timeless
	case "start_time":
		return known(`run.started.format("2006-01-02T15:04:05Z07:00")`, "string"), true
	case "status":
		if d.ended {
			return known(`"completed"`, "string"), true
		}
		return known(`"running"`, "string"), true
	}
	return expression{code: "None"}, true
}
