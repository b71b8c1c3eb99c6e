package definitions

import "strings"

// Written is where a definition is, and how it is written there.
type Written struct {
	Pos Position

	*written // nil if it was not read from YAML
}

// written is what a definition keeps of its file.
type written struct {
	file     string
	lines    []string        // of the file
	places   map[string]spot // by path, e.g. steps[0].arguments.outer.inner
	faulty   map[string]bool // paths of values that could not be read
	resource bool            // it is the spec of a resource

	resourceName string // metadata.name of that; "" = none
}

// ResourceName is metadata.name of the resource that the definition was read from; "" = none.
func (w Written) ResourceName() string {
	if w.written == nil {
		return ""
	}
	return w.written.resourceName
}

// At gives the position of the value at a path, or of the nearest one around it.
func (w Written) At(path string) Position {
	if w.written == nil {
		return w.Pos
	}
	for ; path != ""; path = parent(path) {
		if p, ok := w.written.places[path]; ok && p.line > 0 {
			return Position{w.written.file, p.line, p.column}
		}
	}
	return w.Pos
}

// Place gives the position of the key at a path such as output.properties.text, or of
// the nearest value around it.
func (w Written) Place(path string) Position {
	if w.written != nil {
		if p := w.written.places[path]; p.keyLine > 0 {
			return Position{w.written.file, p.keyLine, p.keyColumn}
		}
	}
	return w.At(path)
}

// parent gives the path of the value around a path.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}
