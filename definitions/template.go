package definitions

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"
)

// MaxTemplateWork bounds what one expansion may do besides writing its
// result: bytes that functions build, plus a price for each turn of a loop,
// each call, each element of an array that a function builds or sorts, and each
// letter that a regular expression looks at. It is to be reached within about
// a second.
const MaxTemplateWork = 50 << 20

// What else there is besides bytes, in bytes.
const (
	turnPrice    = 128 // of a turn of a loop
	callPrice    = 32  // of calling a function or reading a field
	elementPrice = 8   // of an element
	sortPrice    = 64  // of an element or a member that is sorted

	containerFactor = 3 // of a byte of an array or object that is printed or encoded
)

const (
	maxTemplateText = 1 << 20 // bytes of a text with actions
	maxMessage      = 500     // bytes of an error's message
)

// Names of the functions that rewriting puts into a template. No template can
// name them: they are not in the function table.
const (
	printFunc = "__print" // takes the value of each printed pipeline
	fieldFunc = "__field" // takes the place of .a.b, with the path as text
	rangeFunc = "__range" // takes what a range goes through
)

// A Template is a text of a definition in the language of text/template,
// parsed once. It is immutable and may be used by many goroutines at a time.
//
// It differs from text/template in what a missing value is: it prints as
// nothing, a field of it is missing as well, and so is a field of null.
type Template struct {
	text string
	main *parse.Tree            // nil: text without actions
	subs map[string]*parse.Tree // templates that the text defines; usually nil
	refs []Ref
	all  bool // it reads the data as a whole

	single        bool
	before, after string // white space around a single expression
	names         bool   // that expression does nothing but name a value: .steps.read.output
}

// A templateSyntaxError says why a text is not a template.
type templateSyntaxError struct {
	Offset  int    // in bytes from the start of the text; -1 = not known
	Message string // what is wrong, without a position
}

func (e *templateSyntaxError) Error() string { return e.Message }

// parseTemplate parses text and checks all of it that does not depend on
// data: syntax, functions and the number of their arguments, templates that
// it calls.
func parseTemplate(text string) (*Template, *templateSyntaxError) {
	t := &Template{text: text}
	if !strings.Contains(text, "{{") {
		return t, nil
	}
	if len(text) > maxTemplateText {
		return nil, &templateSyntaxError{-1, fmt.Sprintf("template text is longer than %d bytes", maxTemplateText)}
	}
	trees := map[string]*parse.Tree{}
	t.main = parse.New("")
	t.main.Mode = parse.SkipFuncCheck // checkTrees does, and knows where
	if _, err := t.main.Parse(text, "", "", trees); err != nil {
		return nil, syntaxError(text, err)
	}
	if err := checkTrees(text, t.main, trees); err != nil {
		return nil, err
	}
	t.refs, t.all = findRefs(text, t.main, trees)
	t.findSingleExpression()
	for _, name := range sortedKeys(trees) {
		rewriteList(trees[name].Root)
		if trees[name] == t.main {
			continue
		}
		trees[name].Root.Nodes = append([]parse.Node{loopTurn()}, trees[name].Root.Nodes...)
		if t.subs == nil {
			t.subs = map[string]*parse.Tree{}
		}
		t.subs[name] = trees[name]
	}
	if trees[""] != t.main { // Parse keeps a tree of nothing but space and definitions out of the set
		rewriteList(t.main.Root)
	}
	return t, nil
}

// HasActions reports whether expanding the template can give anything but its
// text.
func (t *Template) HasActions() bool { return t.main != nil }

// IsSingleExpression reports whether the template is one printed expression
// and nothing but white space around it, so that it has a value.
func (t *Template) IsSingleExpression() bool { return t.single }

// Text expands the template with data. The error is a plain sentence, and
// names MaxTemplateResult or MaxTemplateWork if one of them was hit.
func (t *Template) Text(data any) (string, error) {
	text, _, err := t.rendered(data)
	return text, err
}

// rendered gives the text and the work that it took.
func (t *Template) rendered(data any) (text string, work int, err error) {
	if t.main == nil {
		return t.text, len(t.text), nil
	}
	x := t.expansion()
	defer x.release(t)
	if err := x.tmpl.Execute(x, data); err != nil {
		return "", x.work, plainError(err)
	}
	return string(x.out), x.work + len(x.out), nil
}

// Value gives the value of a single expression as it is, not as text. ok is
// false if there is none: it is missing, or null.
func (t *Template) Value(data any) (v any, ok bool, err error) {
	if !t.single {
		return nil, false, errors.New("the template is not one expression")
	}
	v, _, err = t.native(data)
	return v, v != nil, err
}

// ParseTemplate parses a template, which Expand expands. The error is a plain
// sentence.
func ParseTemplate(text string) (*Template, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Reads are the paths in the data of what the template reads; an empty one is
// the data as a whole.
func (t *Template) Reads() [][]string {
	paths := make([][]string, 0, len(t.refs)+1)
	if t.all {
		paths = append(paths, nil)
	}
	for _, ref := range t.refs {
		paths = append(paths, append([]string{ref.Root}, ref.Path...))
	}
	return paths
}

// Any is the kind with which Expand gives what the only expression of a template
// gives, as it is.
const Any = "any"

// Expand gives what the template comes to with data: its text; for kinds, types
// of JSON Schema, a value of the first of them that it can be, and text if it
// can be none; for the kind Any the value of its only expression. What has no
// value is nil. Work is what it took, in bytes.
func (t *Template) Expand(data any, kinds []string) (v any, work int, err error) {
	switch {
	case len(kinds) == 1 && kinds[0] == Any && !t.single:
		return nil, 0, errors.New("the template is not one expression")
	case len(kinds) == 1 && kinds[0] == Any:
		return t.native(data)
	case kinds == nil:
		return t.rendered(data)
	}
	v, _, work, err = t.expandFor(data, kinds)
	return v, work, err
}

// native gives the value of the last expression that the template prints, and
// the work that it took.
func (t *Template) native(data any) (v any, work int, err error) {
	x := t.expansion()
	defer x.release(t)
	x.native = true
	if err := x.tmpl.Execute(x, data); err != nil {
		return nil, x.work, plainError(err)
	}
	limit, tooLarge := MaxTemplateResult, errTooLarge
	if t.names {
		limit, tooLarge = MaxHandedOn, errTooMuchHanded
	}
	if err := checkSize(x.value, limit); err == errTooLarge {
		return nil, x.work, tooLarge
	} else if err != nil {
		return nil, x.work, err
	}
	return x.value, x.work, nil
}

// checkSize refuses a value that is larger than it may be. Arrays of arrays that
// functions build can be larger than the memory that they take.
func checkSize(v any, limit int) error {
	switch v := v.(type) {
	case string:
		if len(v) > limit {
			return errTooLarge
		}
	case []any, map[string]any:
		e := encoder{limit: limit}
		return e.encode(v)
	}
	return nil
}

// findSingleExpression sets single, before and after.
func (t *Template) findSingleExpression() {
	expressions, names := 0, false
	var around [2]string
	for _, node := range t.main.Root.Nodes {
		switch node := node.(type) {
		case *parse.TextNode:
			if strings.TrimSpace(string(node.Text)) != "" {
				return
			}
			around[min(expressions, 1)] += string(node.Text)
		case *parse.ActionNode:
			if len(node.Pipe.Decl) > 0 {
				return
			}
			expressions++
			names = namesValue(node.Pipe)
		default:
			return
		}
	}
	if expressions == 1 {
		t.single, t.before, t.after, t.names = true, around[0], around[1], names
	}
}

// namesValue says whether a pipeline is a path and nothing else.
func namesValue(pipe *parse.PipeNode) bool {
	if len(pipe.Cmds) != 1 || len(pipe.Cmds[0].Args) != 1 {
		return false
	}
	_, path := pipe.Cmds[0].Args[0].(*parse.FieldNode)
	return path
}

// An expansion is one run of a template: where its result goes, what it has
// cost so far. Functions are bound to it.
type expansion struct {
	tmpl    *template.Template
	out     []byte
	work    int
	decoded int  // values that were read from JSON
	native  bool // keep the printed value instead of printing it
	value   any
}

// expansions are kept for the next template, since binding the functions
// takes longer than most expansions.
var expansions = sync.Pool{New: func() any { return newExpansion() }}

func newExpansion() *expansion {
	x := &expansion{}
	x.tmpl = template.New("").Funcs(x.functions())
	return x
}

// expansion gives an expansion that is ready to execute t.
func (t *Template) expansion() *expansion {
	if t.subs == nil {
		x := expansions.Get().(*expansion)
		x.tmpl.Tree = t.main
		return x
	}
	x := newExpansion()
	x.tmpl.Tree = t.main
	for _, name := range sortedKeys(t.subs) {
		sub := x.tmpl.New(name)
		if _, err := sub.AddParseTree(name, t.subs[name]); err != nil {
			panic(err) // cannot be: it only fails on a nil template
		}
	}
	return x
}

func (x *expansion) release(t *Template) {
	const keep = 64 << 10
	if t.subs != nil || cap(x.out) > keep {
		return
	}
	*x = expansion{tmpl: x.tmpl, out: x.out[:0]}
	expansions.Put(x)
}

// Write takes what the template writes. An empty write is a turn of a loop
// (see turn) or the printing of nothing.
func (x *expansion) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, x.charge(turnPrice)
	}
	if len(x.out)+len(p) > MaxTemplateResult {
		return 0, errTooLarge
	}
	x.out = append(x.out, p...)
	return len(p), nil
}

var (
	errTooLarge      = fmt.Errorf("the result is larger than %d bytes (limit MaxTemplateResult)", MaxTemplateResult)
	errTooMuchHanded = fmt.Errorf("the value is larger than %d bytes (limit MaxHandedOn)", MaxHandedOn)
	errTooMuchWork   = fmt.Errorf("expanding it takes too much work (limit MaxTemplateWork, %d bytes)", MaxTemplateWork)
)

// charge adds to the work of the expansion.
func (x *expansion) charge(work int) error {
	if work > MaxTemplateWork-x.work {
		return errTooMuchWork
	}
	x.work += work
	return nil
}

// print is what every printed pipeline ends with.
func (x *expansion) print(v any) (string, error) {
	if x.native {
		x.value = v
		return "", nil
	}
	return x.text(v)
}

// ranged charges for what a range goes through: text/template sorts the
// members of an object before the first turn.
func (x *expansion) ranged(v any) (any, error) {
	if object, ok := v.(map[string]any); ok {
		return v, x.charge(len(object) * sortPrice)
	}
	return v, nil
}

// text gives v as it is printed.
func (x *expansion) text(v any) (string, error) {
	if i, ok := v.(*big.Int); ok {
		if err := x.spells(number{big: i}); err != nil {
			return "", err
		}
	}
	s, err := printed(v)
	if err != nil {
		return "", err
	}
	return s, x.charge(x.printPrice(v, len(s)))
}

// printPrice is that of printing v as text of so many bytes: the members of
// objects are sorted.
func (x *expansion) printPrice(v any, bytes int) int {
	switch v.(type) {
	case []any, map[string]any:
		return containerFactor * bytes
	}
	return bytes
}

// printed gives v as templates print it: nothing for a missing value, numbers
// in full, arrays and objects in Go's format (map[a:1 b:[2 3]]), as it has
// always been; json gives JSON.
func printed(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	out, err := appendPrinted(nil, v, 0)
	return string(out), err
}

func appendPrinted(out []byte, v any, depth int) ([]byte, error) {
	if depth > maxValueDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxValueDepth)
	}
	if len(out) > MaxTemplateResult {
		return nil, errTooLarge
	}
	switch v := v.(type) {
	case string:
		return append(out, v...), nil
	case float64:
		return append(out, Float(v).String()...), nil
	case []any:
		return appendPrintedArray(out, v, depth)
	case map[string]any:
		return appendPrintedObject(out, v, depth)
	default:
		return fmt.Append(out, v), nil
	}
}

func appendPrintedArray(out []byte, array []any, depth int) (_ []byte, err error) {
	out = append(out, '[')
	for i, element := range array {
		if i > 0 {
			out = append(out, ' ')
		}
		if out, err = appendPrinted(out, element, depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func appendPrintedObject(out []byte, object map[string]any, depth int) (_ []byte, err error) {
	out = append(out, "map["...)
	for i, key := range sortedKeys(object) {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(append(out, key...), ':')
		if out, err = appendPrinted(out, object[key], depth+1); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

// field gives the field of base that path names, such as output.text. A field
// of a missing value is missing.
func (x *expansion) field(base any, path string) (any, error) {
	if err := x.charge(callPrice + len(path)/readBytes); err != nil {
		return nil, err
	}
	walked := 0
	for name := range strings.SplitSeq(path, ".") {
		switch object := base.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			base = object[name]
		case partial:
			base = object[name]
		case unknown:
			return nil, errNotKnown
		default:
			return nil, fieldError(base, path[:max(walked-1, 0)], name)
		}
		walked += len(name) + 1
	}
	switch base.(type) {
	case partial, unknown:
		return nil, errNotKnown
	}
	return base, nil
}

func fieldError(base any, path, name string) error {
	of := ""
	if path != "" {
		of = " ." + path + " is " + describe(base) + ";"
	}
	if _, ok := base.([]any); ok {
		return fmt.Errorf("cannot read .%s:%s an array has no fields, use index or range", name, of)
	}
	return fmt.Errorf("cannot read .%s:%s %s has no fields", name, of, describe(base))
}

// goNoise is what text/template and its parser put before a message.
var goNoise = regexp.MustCompile(`^template: [^:]*:\d+(:\d+)?: (executing "(\\.|[^"\\])*" at <.*?>: )?|^template: `)

// plainError gives the cause of a failed execution.
func plainError(err error) error {
	if errors.Is(err, errNotKnown) {
		return errNotKnown
	}
	message := goNoise.ReplaceAllString(err.Error(), "")
	message = strings.TrimPrefix(message, "error calling "+fieldFunc+": ")
	message = strings.TrimPrefix(message, "error calling "+printFunc+": ")
	message = strings.TrimPrefix(message, "error calling "+rangeFunc+": ")
	message = strings.TrimPrefix(message, "error calling ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return errors.New(message)
}

var (
	parserLine = regexp.MustCompile(`^template: [^:]*:(\d+): `)
	quotation  = regexp.MustCompile(`"(\\.|[^"\\])+"|<[^>]+>`)
)

// syntaxError turns an error of the parser, which knows the line, into one
// that knows, as well as can be said, the offset.
func syntaxError(text string, err error) *templateSyntaxError {
	message := goNoise.ReplaceAllString(err.Error(), "")
	match := parserLine.FindStringSubmatch(err.Error())
	if match == nil {
		return &templateSyntaxError{-1, message}
	}
	line, _ := strconv.Atoi(match[1])
	start := lineStart(text, line)
	offset := start
	if i := strings.Index(text[start:], "{{"); i >= 0 {
		offset += i
	}
	if quoted := quotation.FindString(message); quoted != "" {
		word, err := strconv.Unquote(quoted)
		if err != nil {
			word = strings.Trim(quoted, "<>")
		}
		if i := strings.Index(text[offset:], word); i >= 0 && word != "" {
			offset += i
		}
	}
	if number, tooLarge := strings.CutPrefix(message, "integer overflow: "); tooLarge {
		message = fmt.Sprintf("%s is too large for a number in a template; read it from text: (int %[1]s)", number)
	}
	if message == `unexpected "=" in operand` {
		message += `; values are compared by functions, as in {{eq .params.env "test"}}`
	}
	return &templateSyntaxError{offset, message}
}

// lineStart gives the offset at which a line, counted from 1, starts.
func lineStart(text string, line int) int {
	offset := 0
	for ; line > 1; line-- {
		i := strings.IndexByte(text[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	return offset
}
