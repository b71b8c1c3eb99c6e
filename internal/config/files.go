package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure/definitions"
)

// piped keeps what came through pipes, such as /dev/stdin and those of <(…): they
// give their content once, and commands read a file more than once.
var piped struct {
	sync.Mutex
	content map[string][]byte
}

// maxFile bounds a file in bytes: who may write one decides what reading it takes.
const maxFile = 8 << 20

// ReadFile reads a file of at most maxFile bytes, and the same again from a pipe of a
// shell. It refuses what may have no end, as hasEnd does.
func ReadFile(name string) ([]byte, error) {
	if err := hasEnd(name); err != nil {
		return nil, err
	}
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() {
		return readBounded(name)
	}
	piped.Lock()
	defer piped.Unlock()
	if content, known := piped.content[name]; known {
		return content, nil
	}
	content, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	if piped.content == nil {
		piped.content = map[string][]byte{}
	}
	piped.content[name] = content
	return content, nil
}

// readBounded reads no more than it needs to know that a file is too large: the size
// that the file system reports may be wrong, as that of a file in /proc is.
func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is larger than %d bytes; split it", maxFile)}
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

// DefinitionFiles are the YAML files below a directory that are not tests, or
// the file itself.
func DefinitionFiles(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, hasEnd(name)
	}
	return FilesBelow(name, func(file string) bool { return isYAML(file) && !definitions.IsTestFile(file) })
}

// FilesBelow are the files that are wanted of a directory and those below it, in
// the order of their paths, or the file itself. What has a name that begins with a
// dot is left out: editors leave such files, and Kubernetes keeps in such
// directories what the files of a mounted ConfigMap are links to.
func FilesBelow(name string, wanted func(file string) bool) (files []string, err error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name += string(filepath.Separator) // also if it is a link to one
	}
	err = filepath.WalkDir(name, func(file string, entry fs.DirEntry, err error) error {
		hidden := file != name && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case hidden && entry.IsDir():
			return filepath.SkipDir
		case !hidden && !entry.IsDir() && wanted(file):
			files = append(files, file)
			return hasEnd(file)
		}
		return nil
	})
	return files, err
}

// errEndless refuses what would be read for ever, or until somebody writes to it.
var errEndless = errors.New("it is a pipe, a device or a socket; name a regular file")

// hasEnd refuses what is neither a regular file nor a directory. The pipes that a
// shell gives, as <(…) or /dev/stdin, end.
func hasEnd(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	ofShell := info.Mode()&fs.ModeNamedPipe != 0 && (strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/"))
	if !info.Mode().IsRegular() && !info.IsDir() && !ofShell {
		return &fs.PathError{Op: "read", Path: file, Err: errEndless}
	}
	return nil
}

// BesideFile reads what definitions of a file name: files in its directory, and
// below.
func BesideFile(file string) func(name string) (string, error) {
	return func(name string) (string, error) {
		if !filepath.IsLocal(name) {
			return "", errors.New("it must be in the directory of the definition, or below")
		}
		text, err := ReadFile(filepath.Join(filepath.Dir(file), filepath.FromSlash(name)))
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return string(text), err
	}
}

func isYAML(file string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(file)))
}

// Stamp changes when a file is changed, added or removed. Files of scripts are
// known once the definitions are.
func (src Sources) Stamp(scripts ...string) string {
	var b strings.Builder
	known := scripts
	for _, name := range append([]string{src.Config}, src.Definitions...) {
		files, err := DefinitionFiles(name)
		if err != nil {
			fmt.Fprintln(&b, name, "missing")
		}
		known = append(known, files...)
	}
	for _, file := range known {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintln(&b, file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// ScriptFiles are the files beside definitions that have their scripts.
func ScriptFiles(defs []*definitions.Definition) []string {
	var files []string
	for _, d := range defs {
		for _, name := range d.Scripts().Files() {
			files = append(files, filepath.Join(filepath.Dir(d.Pos.File), filepath.FromSlash(name)))
		}
	}
	return files
}
