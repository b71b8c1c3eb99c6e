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
	names, err := d.read(field, root, paths)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, name := range names {
		code, known := "", false
		switch root {
		case "forEach":
			code, known = d.forEach[name]
		case "steps":
			code, known = d.step(name, paths)
		case "workflow":
			var e expression
			if e, known = d.workflow(name); !known {
				return "", d.fail(field, ".workflow.%s is not known to a script there: leave it out", name)
			}
			code = e.code
		}
		if known {
			parts = append(parts, starlarkText(name)+": "+code)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// read names the members of a root that paths lead to: all of them where one is the root
// itself.
func (d *dot) read(field, root string, paths [][]string) (names []string, err error) {
	for _, path := range paths {
		switch {
		case len(path) > 0:
			names = append(names, path[0])
		case root == "forEach":
			names = append(names, template.SortedKeys(d.forEach)...)
		case root == "steps" && d.every:
			names = append(names, template.SortedKeys(d.steps)...)
		default:
			return nil, d.fail(field, "the template reads .%s as a whole, and which step has ended when is not known to a script: name what it reads", root)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// step is a step as a template that reads some paths sees it.
func (d *dot) step(name string, paths [][]string) (code string, known bool) {
	d.converter.readsReasons = d.converter.readsReasons || slices.ContainsFunc(paths, readsReason)
	step, known := d.steps[name]
	if !known {
		return "", false
	}
	code = step.whole()
	if !step.plain && slices.ContainsFunc(paths, readsOthers) {
		code = fmt.Sprintf("seen(%s)", code)
	}
	content := slices.ContainsFunc(paths, readsContent)
	if content && d.converter.givesBlocks(name) {
		code = fmt.Sprintf("with_blocks(%s)", code)
	}
	if content && d.converter.asks(name) {
		code = fmt.Sprintf("with_content(%s)", code)
	}
	return code, true
}

// readsOthers reports whether a path below .steps may lead to more than the fields of
// every step.
func readsOthers(path []string) bool { return len(path) < 2 || !slices.Contains(stateFields, path[1]) }

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
