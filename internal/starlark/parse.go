package starlark

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"
)

// A Load is a module that a text loads, where it does so first.
type Load struct {
	Module string // as load names it
	Line   int
	Column int
}

// Loads gives what a text loads itself, each module once.
func Loads(file, text string) (loads []Load) {
	tree, _ := parse(file, text, Limits{}.WithDefaults())
	if tree == nil {
		return nil
	}
	for _, l := range loadStatements(tree) {
		if name := l.ModuleName(); !slices.ContainsFunc(loads, func(known Load) bool { return known.Module == name }) {
			loads = append(loads, Load{name, int(l.Load.Line), int(l.Load.Col)})
		}
	}
	return loads
}

func loadStatements(tree *syntax.File) []*syntax.LoadStmt {
	var loads []*syntax.LoadStmt
	for _, s := range tree.Stmts {
		if l, ok := s.(*syntax.LoadStmt); ok {
			loads = append(loads, l)
		}
	}
	return loads
}

// parse makes a tree of a text that is not nested too deeply. With mistakes and a tree,
// the tree is the text without them, to find others in.
func parse(file, text string, limits Limits) (*syntax.File, Diagnostics) {
	if line, column, ok := tooDeep(text, limits.Nesting); ok {
		at := syntax.Position{Line: int32(line), Col: int32(column)}
		return nil, Diagnostics{diagnosticAt(file, at, CheckLimit, "brackets are nested more than %d deep", limits.Nesting)}
	}
	options := fileOptions
	tree, err := options.Parse(file, text, 0)
	var ds Diagnostics
	if err != nil {
		ds = diagnose(file, err)
		past, foreign, ok := readPast(file, text, ds[0].Line)
		if ok {
			tree, ds = past, foreign
		}
		if !ok || tree == nil {
			return nil, ds
		}
	}
	if deep := checkDepth(tree, limits.Nesting); deep != nil {
		return nil, append(ds, deep...)
	}
	return tree, ds
}

// tooDeep finds the bracket at which a text is nested more deeply than a limit,
// before the parser, which recurses, sees it.
func tooDeep(text string, limit int) (line, column int, found bool) {
	depth, start := 0, 0
	line = 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line, start = line+1, i+1
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end := endOfString(text, i)
			if n := strings.Count(text[i:end], "\n"); n > 0 {
				line, start = line+n, i+strings.LastIndexByte(text[i:end], '\n')+1
			}
			i = end - 1
		case '(', '[', '{':
			if depth++; depth > limit {
				return line, i - start + 1, true
			}
		case ')', ']', '}':
			depth--
		}
	}
	return 0, 0, false
}

// endOfString is the index after a literal that begins at i. The parser reports
// a literal that does not end.
func endOfString(text string, i int) int {
	quote := text[i : i+1]
	if strings.HasPrefix(text[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for j := i + len(quote); j < len(text); j++ {
		switch {
		case text[j] == '\\':
			j++
		case strings.HasPrefix(text[j:], quote):
			return j + len(quote)
		case text[j] == '\n' && len(quote) == 1:
			return j
		}
	}
	return len(text)
}

// checkDepth refuses a tree that is nested too deeply for what walks it.
func checkDepth(tree *syntax.File, limit int) Diagnostics {
	depth := 0
	var at *syntax.Position
	for _, s := range tree.Stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			if n == nil {
				depth--
				return true
			}
			// Each clause of a comprehension is within the one before it, and compiling
			// them takes the square of their number.
			if c, ok := n.(*syntax.Comprehension); ok && len(c.Clauses) > limit && at == nil {
				pos := syntax.Start(c.Clauses[limit])
				at = &pos
			}
			// A statement and its expressions make about four nodes a level.
			if depth++; depth > 4*limit && at == nil {
				pos := syntax.Start(n)
				at = &pos
			}
			return at == nil
		})
		if at != nil {
			return Diagnostics{diagnosticAt(tree.Path, *at, CheckLimit, "the script is nested more than %d deep", limit)}
		}
	}
	return nil
}

// Indent indents the lines of a program, except those within a string of several
// lines.
func Indent(text, by string) string {
	var b strings.Builder
	start := true
	for i := 0; i < len(text); {
		if start && text[i] != '\n' {
			b.WriteString(by)
		}
		start = false
		end := i + 1
		switch text[i] {
		case '#':
			for end < len(text) && text[end] != '\n' {
				end++
			}
		case '"', '\'':
			end = min(endOfString(text, i), len(text))
		case '\n':
			start = true
		}
		b.WriteString(text[i:end])
		i = end
	}
	return strings.TrimRight(b.String(), " \n")
}
