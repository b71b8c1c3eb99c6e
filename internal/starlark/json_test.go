package starlark_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// sameJSON compares texts with integers as they are written and fractions as the
// number they are.
func sameJSON(t *testing.T, in, out string) {
	t.Helper()
	if got, want := decodeExactly(t, []byte(out)), decodeExactly(t, []byte(in)); !reflect.DeepEqual(got, want) {
		t.Errorf("%s became %s", in, out)
	}
}

// decodeExactly reads JSON with integers as they are written and fractions as
// the number they are.
func decodeExactly(t *testing.T, data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	perduretest.NoError(t, d.Decode(&v))
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
