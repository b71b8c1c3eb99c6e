package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// functionTests has at least one call of each function: the template and what
// it gives.
var functionTests = map[string][]struct{ text, want string }{
	"add":                    {{`{{add 1 2 3}}`, "6"}, {`{{add 9223372036854775807 1}}`, "9223372036854775808"}, {`{{add 1 0.5}}`, "1.5"}, {`{{add "2" 3}}`, "5"}},
	"add1":                   {{`{{add1 .params.big}}`, "12345679"}},
	"and":                    {{`{{and 1 0}}`, "0"}},
	"append":                 {{`{{append (list 1) 2 | json}}`, "[1,2]"}, {`{{append .params.nope 2 | json}}`, "[2]"}},
	"atoi":                   {{`{{atoi "42"}}`, "42"}},
	"b64dec":                 {{`{{b64dec "YWJj"}}`, "abc"}},
	"b64enc":                 {{`{{b64enc "abc"}}`, "YWJj"}},
	"base":                   {{`{{base "a/b.go"}}`, "b.go"}},
	"camelcase":              {{`{{camelcase "http_server"}}`, "HttpServer"}},
	"cat":                    {{`{{cat "a" 1 .params.nope true}}`, "a 1 true"}},
	"ceil":                   {{`{{ceil 1.2}} {{ceil 5}}`, "2 5"}},
	"clean":                  {{`{{clean "a/../b/"}}`, "b"}},
	"coalesce":               {{`{{coalesce .params.nope 0 "" "x" "y"}}`, "x"}},
	"compact":                {{`{{compact (list 1 "" 0 nil "a") | json}}`, `[1,"a"]`}},
	"concat":                 {{`{{concat (list 1) .params.nope (list 2 3) | json}}`, "[1,2,3]"}},
	"contains":               {{`{{contains "ell" "hello"}} {{contains "x" .params.nope}}`, "true false"}},
	"default":                {{`{{default "d" .params.nope}} {{"x" | default "d"}} {{default 5 .params.zero}}`, "d x 5"}},
	"dict":                   {{`{{dict "b" 1 "a" (list 2) "c" | json}}`, `{"a":[2],"b":1,"c":null}`}},
	"dig":                    {{`{{dig "a" "n" "d" .params.tree}} {{dig "a" "x" "d" .params.tree}} {{dig "b" "x" "d" .params.tree}}`, "1000000000000000000000 d d"}},
	"dir":                    {{`{{dir "a/b.go"}}`, "a"}},
	"div":                    {{`{{div 7 2}} {{div 7 2.0}} {{div -7 2}}`, "3 3.5 -3"}},
	"empty":                  {{`{{empty ""}} {{empty .params.nope}} {{empty .params.list}} {{empty .params.zero}}`, "true true false true"}},
	"eq":                     {{`{{eq 1 1.0}}`, "true"}},
	"ext":                    {{`{{ext "a/b.go"}}`, ".go"}},
	"fail":                   {},
	"first":                  {{`{{first .params.list}}{{first (list)}}`, "1"}},
	"float64":                {{`{{float64 "1.50"}} {{float64 .params.huge}}`, "1.5 123456789012345680000000000000"}},
	"floor":                  {{`{{floor -1.2}} {{floor .params.huge}} {{floor 1e20}}`, "-2 123456789012345678901234567890 100000000000000000000"}},
	"fromJson":               {{`{{(fromJson "{\"a\":[1]}").a}}`, "[1]"}},
	"ge":                     {{`{{ge 2 2.0}}`, "true"}},
	"get":                    {{`{{get .params "name"}}{{get .params "nope"}}`, "Ada"}},
	"gt":                     {{`{{gt .params.huge 1e3}} {{gt "b" "a"}}`, "true true"}},
	"has":                    {{`{{has 1 .params.list}} {{has 2.5 .params.list}} {{has 3 .params.list}} {{has (dict "a" (list 1.0)) (list 1 (dict "a" (list 1)))}} {{has 1 .params.nope}}`, "true true false true false"}},
	"hasKey":                 {{`{{hasKey .params "null"}} {{hasKey .params "nope"}}`, "true false"}},
	"hasPrefix":              {{`{{hasPrefix "A" .params.name}}`, "true"}},
	"hasSuffix":              {{`{{hasSuffix "A" .params.name}}`, "false"}},
	"html":                   {{`{{html "<"}}`, "&lt;"}},
	"indent":                 {{`{{indent 2 "a\nb"}}`, "  a\n  b"}},
	"index":                  {{`{{index .params "tree" "b" 0}}`, "true"}},
	"initial":                {{`{{initial .params.list | json}}{{initial (list) | json}}`, "[1,2.5,null][]"}},
	"int":                    {{`{{int 3.9}} {{int "7"}} {{int -3.9}}`, "3 7 -3"}},
	"int64":                  {{`{{int64 .params.three}}`, "3"}},
	"join":                   {{`{{join "-" .params.list}} {{join "-" "a"}} {{join "-" .params.nope}}`, "1-2.5-x a "}},
	"js":                     {{`{{js "\""}}`, `\"`}},
	"json":                   {{`{{json .params.huge}} {{json .params.nope}}`, "123456789012345678901234567890 null"}},
	"kebabcase":              {{`{{kebabcase "HttpServer"}}`, "http-server"}},
	"keys":                   {{`{{keys .params.tree (dict "z" 1) | json}}`, `["a","b","z"]`}},
	"kindIs":                 {{`{{kindIs "map" .params.tree}} {{kindIs "int64" .params.huge}}`, "true true"}},
	"kindOf":                 {{`{{kindOf .params.list}} {{kindOf .params.price}} {{kindOf nil}} {{kindOf "a"}} {{kindOf true}}`, "slice float64 invalid string bool"}},
	"last":                   {{`{{last .params.list}}`, "x"}},
	"le":                     {{`{{le 1 1.5}}`, "true"}},
	"len":                    {{`{{len .params.tree}}`, "2"}},
	"list":                   {{`{{list 1 "a" nil | json}} {{list | json}}`, `[1,"a",null] []`}},
	"lower":                  {{`{{lower "ÄB"}}`, "äb"}},
	"lt":                     {{`{{lt 1 1.5}}`, "true"}},
	"max":                    {{`{{max 1 2.5 "2"}} {{max .params.huge 1e3}}`, "2.5 123456789012345678901234567890"}},
	"merge":                  {{`{{merge (dict "a" 1 "o" (dict "x" 1)) (dict "a" 2 "b" 3 "o" (dict "x" 2 "y" 3)) | json}}`, `{"a":1,"b":3,"o":{"x":1,"y":3}}`}},
	"mergeOverwrite":         {{`{{mergeOverwrite (dict "a" 1 "o" (dict "x" 1)) (dict "a" 2 "o" (dict "y" 3)) | json}}`, `{"a":2,"o":{"x":1,"y":3}}`}},
	"min":                    {{`{{min 3 1 2}}`, "1"}},
	"mod":                    {{`{{mod 7 3}} {{mod 7.5 2}}`, "1 1.5"}},
	"mul":                    {{`{{mul 9223372036854775807 10}} {{mul 2 0.5}}`, "92233720368547758070 1"}},
	"ne":                     {{`{{ne 1 2}}`, "true"}},
	"nindent":                {{`{{nindent 2 "a"}}`, "\n  a"}},
	"nospace":                {{`{{nospace " a b "}}`, "ab"}},
	"not":                    {{`{{not 0}}`, "true"}},
	"omit":                   {{`{{omit .params.tree "a" | json}}`, `{"b":[true]}`}},
	"or":                     {{`{{or 0 "x"}}`, "x"}},
	"pick":                   {{`{{pick .params.tree "b" "nope" | json}}`, `{"b":[true]}`}},
	"pluck":                  {{`{{pluck "a" (dict "a" 1) (dict "b" 2) (dict "a" 3) | json}}`, "[1,3]"}},
	"prepend":                {{`{{prepend (list 1) 0 | json}}`, "[0,1]"}},
	"print":                  {{`{{print 1 2 "x" 3}}`, "1 2x3"}},
	"printf":                 {{`{{printf "%03d" 7}}`, "007"}},
	"println":                {{`{{println "a" 1.5}}`, "a 1.5\n"}},
	"quote":                  {{`{{quote "say \"hi\""}} {{quote .params.big}}{{quote "a" nil "b"}} {{quote .params.nope}}`, `"say \"hi\"" "12345678""a" "b" ""`}},
	"regexFind":              {{`{{regexFind "[0-9]+" "ab12cd3"}}`, "12"}},
	"regexFindAll":           {{`{{regexFindAll "[0-9]+" "1a22b333" -1 | json}} {{regexFindAll "[0-9]+" "1a22b333" 2 | json}}`, `["1","22","333"] ["1","22"]`}},
	"regexMatch":             {{`{{regexMatch "^a+$" "aaa"}}`, "true"}},
	"regexQuoteMeta":         {{`{{regexQuoteMeta "a.b"}}`, `a\.b`}},
	"regexReplaceAll":        {{`{{regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W"}}`, "-W-xxW-"}},
	"regexReplaceAllLiteral": {{`{{regexReplaceAllLiteral "a(x*)b" "-ab-" "${1}"}}`, "-${1}-"}},
	"regexSplit":             {{`{{regexSplit "z+" "pizza" -1 | json}}`, `["pi","a"]`}},
	"repeat":                 {{`{{repeat 3 "ab"}}{{"x" | repeat 2.0}}`, "abababxx"}},
	"replace":                {{`{{replace "a" "bb" "aXa"}}`, "bbXbb"}},
	"rest":                   {{`{{rest .params.list | json}}{{rest (list) | json}}`, `[2.5,null,"x"][]`}},
	"reverse":                {{`{{reverse .params.list | json}}`, `["x",null,2.5,1]`}},
	"round":                  {{`{{round 2.5 0}} {{round -2.5 0}} {{round 123.456 2}} {{round 7 2}} {{round 1e300 400}}`, "3 -3 123.46 7 1" + strings.Repeat("0", 300)}},
	"semverCompare":          {{`{{semverCompare "^1.2" "1.9.0"}} {{semverCompare "<1" "1.9.0"}}`, "true false"}},
	"slice":                  {{`{{slice "abcd" 1 3}} {{slice .params.list 3 | json}}`, `bc ["x"]`}},
	"snakecase":              {{`{{snakecase "HttpServer"}}`, "http_server"}},
	"sortAlpha":              {{`{{sortAlpha (list "b" 10 "a" nil) | json}}`, `["10","a","b"]`}},
	"split":                  {{`{{(split "-" "a-b")._1}}`, "b"}},
	"splitList":              {{`{{splitList "," "a,b" | json}}`, `["a","b"]`}},
	"squote":                 {{`{{squote "a"}}`, "'a'"}},
	"sub":                    {{`{{sub 1 2}} {{sub .params.huge .params.huge}}`, "-1 0"}},
	"substr":                 {{`{{substr 1 3 "äbcd"}} {{substr 2 -1 "abcd"}} {{substr 5 9 "ab"}}`, "bc cd "}},
	"ternary":                {{`{{ternary "y" "n" true}} {{ternary "y" "n" .params.nope}}`, "y n"}},
	"title":                  {{`{{title "hello wide world"}}`, "Hello Wide World"}},
	"toJson":                 {{`{{toJson .params.tree}}`, `{"a":{"n":1000000000000000000000},"b":[true]}`}},
	"toPrettyJson":           {{`{{toPrettyJson (dict "a" 1)}}`, "{\n  \"a\": 1\n}"}},
	"toRawJson":              {{`{{toRawJson "<"}}`, `"<"`}},
	"toString":               {{`{{toString .params.price}}`, "1234567.5"}},
	"trim":                   {{`{{trim " a "}}`, "a"}},
	"trimAll":                {{`{{trimAll "$" "$5$"}}`, "5"}},
	"trimPrefix":             {{`{{trimPrefix "-" "-a-"}}`, "a-"}},
	"trimSuffix":             {{`{{trimSuffix "-" "-a-"}}`, "-a"}},
	"trunc":                  {{`{{trunc 2 "äbc"}} {{trunc -2 "äbc"}} {{trunc 9 "a"}}`, "äb bc a"}},
	"uniq":                   {{`{{uniq (list 1 1.0 "1" 2 1) | json}}`, `[1,"1",2]`}},
	"until":                  {{`{{until 3 | json}} {{until -2 | json}} {{until 0 | json}}`, "[0,1,2] [0,-1] []"}},
	"untilStep":              {{`{{untilStep 1 10 4 | json}} {{untilStep 3 0 -1 | json}} {{untilStep 0 3 -1 | json}} {{untilStep 0 3 0 | json}}`, "[1,5,9] [3,2,1] [] []"}},
	"untitle":                {{`{{untitle "Hello World"}}`, "hello world"}},
	"upper":                  {{`{{upper "äb"}} {{.params.nope | upper}}{{upper 5}}`, "ÄB 5"}},
	"urlquery":               {{`{{urlquery "a&b"}}`, "a%26b"}},
	"values":                 {{`{{values (dict "b" 1 "a" 2) | json}}`, "[2,1]"}},
	"without":                {{`{{without .params.list 1.0 "x" | json}}`, "[2.5,null]"}},
}

// Every function gives what it should, and the same again and again.
func TestFunctions(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(SortedKeys(Functions()), SortedKeys(functionTests)); diff != "" {
		t.Errorf("functions without tests, or tests without functions (-functions +tests):\n%s", diff)
	}
	for name, tests := range functionTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, test := range tests {
				template := mustParse(t, test.text)
				for range 50 {
					got, err := template.Text(sample())
					if err != nil {
						t.Fatalf("%s: %v", test.text, err)
					}
					if got != test.want {
						t.Fatalf("%s gave %q, want %q", test.text, got, test.want)
					}
				}
			}
		})
	}
}

// What is not a matter of the arguments alone cannot be called.
func TestFunctionsThatAreNotThere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"now", "date", "ago", "toDate", "durationRound", "env", "expandenv", "getHostByName", "randInt", "randAlpha", "shuffle", "uuidv4",
		"bcrypt", "htpasswd", "uuid", "genPrivateKey", "encryptAES", "derivePassword", "osBase", "set", "unset", "call",
	} {
		if isFunction(name) {
			t.Errorf("there is a function %s", name)
		}
	}
}

// No function panics, whatever it is called with.
func TestFunctionsTakeAnything(t *testing.T) {
	t.Parallel()
	anything := []any{
		nil, "", "x", "12", true, int64(-1), int64(3), int64(1 << 62), bigInt("123456789012345678901234567890"), Float(1.5), Float(1e300), 7, 2.5,
		[]any{}, []any{nil, "a", int64(1)}, map[string]any{}, map[string]any{"a": nil, "b": []any{}},
	}
	for name, f := range functionTable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := f.min; n <= max(f.min, min(f.max, 3), 2); n++ {
				if f.max >= 0 && n > f.max {
					break
				}
				args := make([]any, n)
				var fill func(i int)
				fill = func(i int) {
					if i == n {
						c := &call{x: &expansion{}, args: append([]any(nil), args...)}
						if v, err := c.result(f); err == nil {
							if _, err := EncodeValue(v); err != nil {
								t.Errorf("%s%v gave %v: %v", name, args, v, err)
							}
						} else if err.Error() == "" {
							t.Errorf("%s%v failed without a message", name, args)
						}
						return
					}
					for _, arg := range anything {
						args[i] = arg
						fill(i + 1)
					}
				}
				fill(0)
			}
		})
	}
}
