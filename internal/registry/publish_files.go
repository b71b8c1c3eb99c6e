package registry

import (
	"cmp"
	"context"
	"errors"
	"path"
	"path/filepath"

	"github.com/Masterminds/semver/v3"

	"github.com/perdure/perdure/definitions"
)

// A File is a file of definitions as written, or a module, whose name ends in .star.
type File struct {
	Name string `json:"name"` // for messages
	Text string `json:"text"`
	// Scripts are the files of its scripts, and those that they load, by the names that
	// the definitions use.
	Scripts map[string]string `json:"scripts,omitempty"`
}

// script gives a file of scripts from the request.
func (f File) script(name string) (string, error) {
	text, ok := f.Scripts[name]
	if !ok {
		return "", errors.New("it was not sent")
	}
	return text, nil
}

// given is the content of a request, with the requested versions.
type given struct {
	defs    []*definitions.Definition
	modules []module
}

// A module that is to be published.
type module struct {
	*definitions.Module
	pos definitions.Position
}

// maxValues bounds the keys, values and lines of the files of one request: reading
// YAML takes about 1.5 KB for each.
const maxValues = 200_000

// maxAtOnce bounds the definitions of one request: each is checked with all that it calls,
// while nobody else can publish.
const maxAtOnce = 1000

// unreadable reports files that are too large to read; nil = none.
func unreadable(q Request) definitions.Diagnostics {
	values := 0
	for _, file := range q.Files {
		pos := definitions.Position{File: file.Name, Line: 1, Column: 1}
		if n := len(file.Text); n > maxPublished {
			return definitions.Diagnostics{problem(pos, checkSize, "the file has %d bytes; a file that is published may have %d", n, maxPublished)}
		}
		if values += definitions.CountValues([]byte(file.Text)); values > maxValues {
			return definitions.Diagnostics{problem(pos, checkSize, "the files have more than %d keys, values and lines; publish fewer at a time", maxValues)}
		}
	}
	return nil
}

// readOne reads the files of a request, one request at a time: senders decide how much
// memory reading takes, up to a bound.
func (r *Registry) readOne(ctx context.Context, q Request) (all given, diags definitions.Diagnostics, err error) {
	if diags = unreadable(q); diags != nil {
		return all, diags, nil
	}
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-ctx.Done():
		return all, nil, ctx.Err()
	}
	all, diags = readFiles(q)
	return all, diags, nil
}

func readFiles(q Request) (all given, diags definitions.Diagnostics) {
	for _, file := range q.Files {
		if definitions.IsModuleName(file.Name) {
			m := module{&definitions.Module{Name: path.Base(filepath.ToSlash(file.Name)), Text: file.Text}, definitions.Position{File: file.Name, Line: 1, Column: 1}}
			m.Version = cmp.Or(q.Version, definitions.StatedVersion(file.Text))
			diags = append(diags, wrongVersion(m.pos, m.Name, m.Version, "# version: 1.0.0 at its top")...)
			all.modules = append(all.modules, m)
			continue
		}
		found, d := definitions.Parse(file.Name, []byte(file.Text))
		for _, def := range found {
			d = append(d, def.Pin(file.script)...)
		}
		all.defs = append(all.defs, found...)
		diags = append(diags, d...)
	}
	for _, d := range all.defs {
		d.Version = cmp.Or(q.Version, d.Version)
		diags = append(diags, wrongVersion(d.Pos, d.Name, d.Version, "version: 1.0.0")...)
		if definitions.IsModuleName(d.Name) {
			diags = append(diags, problem(d.Pos, checkName, "%s is no name for a composite tool that is published: what ends in .star is a module", d.Name))
		}
	}
	if n := len(all.defs); n > maxAtOnce {
		return given{}, definitions.Diagnostics{problem(all.defs[0].Pos, checkSize, "the files have %d composite tools; publish at most %d at a time", n, maxAtOnce)}
	}
	return all, diags
}

// wrongVersion says why something cannot be published under its version; nil = it can.
// Line is the line that gives it a version.
func wrongVersion(pos definitions.Position, name, version, line string) definitions.Diagnostics {
	v, err := semver.StrictNewVersion(version)
	switch {
	case version == "":
		return definitions.Diagnostics{problem(pos, checkVersion, "%s has no version: write one such as %s into it, or say --version 1.0.0", name, line)}
	case err != nil:
		return definitions.Diagnostics{problem(pos, checkVersion, "%s has the version %q, which is not a semantic version such as 1.4.0", name, version)}
	case v.Metadata() != "":
		return definitions.Diagnostics{problem(pos, checkVersion, "%s has the version %s: what follows the + does not distinguish versions; publish it without", name, version)}
	}
	return nil
}
