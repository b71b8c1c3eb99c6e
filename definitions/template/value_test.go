package template

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

func bigInt(s string) *big.Int {
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic("not an integer: " + s)
	}
	return i
}

var compareBig = cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })

func TestDecodeValue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want any
	}{
		{`null`, nil},
		{`true`, true},
		{` "a\u00e9<" `, "aé<"},
		{`0`, int64(0)},
		{`-0`, int64(0)},
		{`9007199254740993`, int64(9007199254740993)},
		{`9223372036854775807`, int64(math.MaxInt64)},
		{`-9223372036854775808`, int64(math.MinInt64)},
		{`9223372036854775808`, bigInt("9223372036854775808")},
		{`1.5`, Float(1.5)},
		{`1.0`, Float(1)},
		{`1e3`, Float(1000)},
		{`1e-400`, Float(0)},
		{`[]`, []any{}},
		{`{"b":[1,{"c":2.5}],"a":{}}`, map[string]any{"a": map[string]any{}, "b": []any{int64(1), map[string]any{"c": Float(2.5)}}}},
		{`{"a":{"x":1},"a":{"y":2}}`, map[string]any{"a": map[string]any{"y": int64(2)}}},
	}
	for _, test := range tests {
		got, err := DecodeValue([]byte(test.text))
		if err != nil {
			t.Errorf("DecodeValue(%.50s): %v", test.text, err)
		} else if diff := cmp.Diff(test.want, got, compareBig); diff != "" {
			t.Errorf("DecodeValue(%.50s) (-want +got):\n%s", test.text, diff)
		}
	}
}

func TestDecodeValueDepth(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	v := perduretest.Must(DecodeValue([]byte(text)))(t)
	if got, err := EncodeValue(v); err != nil || string(got) != text {
		t.Errorf("1,000 arrays in each other became %.20s… (%v)", got, err)
	}
}

func TestDecodeValueErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{``, "empty"},
		{`{`, "unexpected EOF"},
		{`{"a":1} x`, "after the JSON value"},
		{`1 2`, "after the JSON value"},
		{`01`, "after the JSON value"},
		{`1e400`, "out of range"},
		{`-1e999999999`, "out of range"},
		{strings.Repeat("[", 1002) + strings.Repeat("]", 1002), "nested more than 1000 deep"},
		{strings.Repeat("[", 1<<20), "depth"},
		{strings.Repeat("9", 1<<20), "digits"},
		{`{"a":nul}`, "invalid character"},
	}
	for _, test := range tests {
		got, err := DecodeValue([]byte(test.text))
		if err == nil {
			t.Errorf("DecodeValue(%.50s) = %v, want an error", test.text, got)
		} else if !strings.Contains(err.Error(), test.want) || len(err.Error()) > 200 {
			t.Errorf("DecodeValue(%.50s): %v, want %q", test.text, err, test.want)
		}
	}
}

func TestEncodeValue(t *testing.T) {
	t.Parallel()
	type text string
	tests := []struct {
		value any
		want  string
	}{
		{nil, `null`},
		{"<b> & \"q\" \\ \n\r\t\b\f\x01\u2028é\xff", "\"<b> & \\\"q\\\" \\\\ \\n\\r\\t\\b\\f\\u0001\\u2028é\\ufffd\""},
		{Float(1234567.5), `1234567.5`},
		{Float(1e21), `1000000000000000000000`},
		{Float(1e-7), `0.0000001`},
		{Float(3), `3`},
		{1e21, `1000000000000000000000`},
		{bigInt("-123456789012345678901234567890"), `-123456789012345678901234567890`},
		{map[string]any{"b": int64(1), "a": []any{nil, false}, "": map[string]any{}}, `{"":{},"a":[null,false],"b":1}`},
		{[]string{"a"}, `["a"]`},
		{map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`},
		{map[text]text{"k": "v"}, `{"k":"v"}`},
		{[]any{int(1), uint64(math.MaxUint64), float32(0.5), text("x"), json.Number("12345678901234567890"), json.RawMessage(`{"b":1,"a":2}`)},
			`[1,18446744073709551615,0.5,"x",12345678901234567890,{"a":2,"b":1}]`},
	}
	for _, test := range tests {
		got, err := EncodeValue(test.value)
		if err != nil || string(got) != test.want {
			t.Errorf("EncodeValue(%v) = %s, %v, want %s", test.value, got, err, test.want)
		}
		if !json.Valid(got) {
			t.Errorf("EncodeValue(%v) = %s, which is not JSON", test.value, got)
		}
	}
}

func TestEncodeValueErrors(t *testing.T) {
	t.Parallel()
	endless := map[string]any{}
	endless["again"] = endless
	for _, value := range []any{math.NaN(), Float(math.Inf(1)), func() {}, map[int]string{1: "a"}, endless, json.Number("x"), json.RawMessage("{")} {
		if got, err := EncodeValue(value); err == nil {
			t.Errorf("EncodeValue of a %T = %.50s, want an error", value, got)
		}
	}
}

func TestCompareNumbers(t *testing.T) {
	t.Parallel()
	// Each is less than the next one.
	ascending := []any{
		math.Inf(-1), bigInt("-9223372036854775809"), int64(math.MinInt64), Float(-1.5), int64(-1), 0, Float(0.1), 1,
		int64(9007199254740992), int64(9007199254740993), uint64(math.MaxUint64), bigInt("18446744073709551616"), Float(1e300),
	}
	for i, a := range ascending {
		for j, b := range ascending {
			n, _ := numberOf(a)
			m, _ := numberOf(b)
			want := min(1, max(-1, i-j))
			if got := n.compare(m); got != want {
				t.Errorf("%v compared with %v gives %d, want %d", a, b, got, want)
			}
		}
	}
}

func FuzzDecodeValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,1e21,12345678901234567890,"x\ud800",null,true]}`, `"\u2028"`, `-0.0`, `[[[]]]`, `1e-320`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := DecodeValue(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is not JSON and was decoded", data)
		}
		first, err := EncodeValue(v)
		if err != nil {
			t.Fatalf("encoding what %q decodes to: %v", data, err)
		}
		again, err := DecodeValue(first)
		if err != nil {
			t.Fatalf("decoding %s again: %v", first, err)
		}
		second, err := EncodeValue(again)
		if err != nil || string(first) != string(second) {
			t.Fatalf("%s became %s (%v)", first, second, err)
		}
	})
}
