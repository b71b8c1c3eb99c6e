package definitions

import "strings"

// written is what a definition keeps of its file.
type written struct {
	file     string
	lines    []string        // of the file
	places   map[string]spot // by path, e.g. steps[0].arguments.outer.inner
	faulty   map[string]bool // paths of values that could not be read
	resource bool            // it is the spec of a resource

	resourceName string // metadata.name of that; "" = none
}

// ResourceName is metadata.name of the resource that d was read from; "" = none.
func (d *Definition) ResourceName() string {
	if d.written == nil {
		return ""
	}
	return d.written.resourceName
}

// At gives the position of the value at a path, or of the nearest one around it.
func (d *Definition) At(path string) Position {
	if d.written == nil {
		return d.Pos
	}
	for ; path != ""; path = parent(path) {
		if p, ok := d.written.places[path]; ok && p.line > 0 {
			return Position{d.written.file, p.line, p.column}
		}
	}
	return d.Pos
}

// Place gives the position of the key at a path such as output.properties.text, or of
// the nearest value around it.
func (d *Definition) Place(path string) Position {
	if d.written != nil {
		if p := d.written.places[path]; p.keyLine > 0 {
			return Position{d.written.file, p.keyLine, p.keyColumn}
		}
	}
	return d.At(path)
}

// parent gives the path of the value around a path.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}
