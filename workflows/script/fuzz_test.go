package script_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/workflows/script"
)

// FuzzCompile: whatever the text, compiling it ends, and does not panic.
func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{"testdata/*.star", "testdata/bombs/*.star"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			for _, part := range strings.Split(string(text), "---\n") {
				f.Add(part)
			}
		}
	}
	f.Add(strings.Repeat("(", 10000))
	f.Add(strings.Repeat("not ", 10000) + "x")
	f.Add(strings.Repeat("lambda:", 10000) + "x")
	f.Add("x = '''" + strings.Repeat("(", 500) + "'''")
	f.Add("#" + strings.Repeat("[", 500))
	f.Fuzz(func(t *testing.T, text string) {
		p, ds := script.Compile(script.Source{Text: text, Modules: map[string]string{"lib.star": library}}, script.Limits{})
		if (p == nil) == (ds == nil) {
			t.Fatalf("program %v, diagnostics %v", p, ds)
		}
		if p != nil {
			p.Calls()
			p.Globals()
		}
	})
}

// FuzzRun: whatever a script does, it ends, and does not panic.
func FuzzRun(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.star")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "---\n") {
			f.Add(part)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ds := script.Compile(script.Source{Text: text, Modules: map[string]string{"assert.star": assertions, "lib.star": library}}, script.Limits{})
		if ds != nil {
			return
		}
		execute(t, p, &fake{}, script.Input{Limits: script.Limits{Steps: 20_000, Memory: 8 << 20, Calls: 20}})
	})
}

// FuzzValues: what comes in as JSON goes out as the same JSON.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{`null`, `{"a":[1,2.5,-0,1e3,"x\u0000\ud83d\ude00"]}`, `[[[[]]]]`, `123456789012345678901234567890`, `{"a":1,"a":2}`, `"\ud800"`, `1e400`, `0.1`, `-0.0`, `[1,]`, `1.0`} {
		f.Add(seed)
	}
	p := compile(f, `
same = call_tool("t_echo", value = data)["value"]
if same != data:
    fail("%r became %r" % (data, same))
if json.decode(json.encode(data)) != data:
    fail("json: %r" % data)
return same
`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		out, failure := execute(t, p, &fake{}, script.Input{Data: json.RawMessage(text)})
		if failure != nil {
			if strings.HasPrefix(failure.Message, "data: ") || failure.Category == "limit" {
				return // refused where it came in
			}
			t.Fatal(failure.Message)
		}
		if got, want := decodeExactly(t, out), decodeExactly(t, []byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s became %s", text, out)
		}
	})
}

// decodeExactly reads JSON with integers as they are written and fractions as
// the number they are.
func decodeExactly(t *testing.T, data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return exactly(v)
}

func exactly(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") {
			if v == "-0" {
				return json.Number("0")
			}
			return v
		}
		f, err := v.Float64()
		if err != nil {
			return err.Error()
		}
		return json.Number(positiveZero(strconv.FormatFloat(f, 'f', -1, 64)))
	case []any:
		for i := range v {
			v[i] = exactly(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exactly(v[k])
		}
	}
	return v
}

func positiveZero(text string) string {
	if text == "-0" {
		return "0"
	}
	return text
}
