package deftest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/perduretest"
)

const manual = "../../docs/testing.md"

// The example of the manual passes.
func TestManualExample(t *testing.T) {
	t.Parallel()
	text := perduretest.Read(t, manual)
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n# (\\S+\\.yaml)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	ran := 0
	for name, data := range files {
		if !definitions.IsTestFile(name) {
			continue
		}
		file, diags := Parse(name, []byte(data), Sources{ReadFile: func(name string) ([]byte, error) {
			if data, ok := files[filepath.Base(name)]; ok {
				return []byte(data), nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not in the manual")}
		}})
		perduretest.NoError(t, diags.Err())
		for _, c := range file.Cases {
			ran++
			for _, p := range c.Run().Problems {
				t.Errorf("%s: %s: %s\n%s", p.Pos, c.Name, p.Message, p.Diff)
			}
		}
	}
	if ran == 0 {
		t.Error("the manual has no test file")
	}
}

// The manual has every field that a test file may have.
func TestManualHasAllFields(t *testing.T) {
	t.Parallel()
	text := perduretest.Read(t, manual)
	for _, v := range []any{
		document{}, toolFile{}, caseFile{}, answer{}, response{}, block{}, expectation{},
		expectedError{}, expectedCalls{}, expectedCall{}, expectedQuestion{}, expectedDuration{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			key := f.Tag.Get("yaml")
			if key != "" && key != "-" && !strings.Contains(string(text), "`"+key+"`") {
				t.Errorf("%s does not explain `%s` of %T", manual, key, v)
			}
		}
	}
}
