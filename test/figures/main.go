// Command figures prints what can be counted of the product's source: lines by
// package, lengths of functions, the largest structs, methods per type, long
// files, and what the package definitions pulls in. Figures are a symptom;
// reading is the judge.
//
//	cd test && go run ./figures
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	longFile    = 400 // lines; a longer file wants to be two
	manyFields  = 12  // of a struct
	manyMethods = 20  // of a type
	shown       = 10  // entries of a list of the largest
)

func main() {
	root := flag.String("root", "..", "the directory of the module to count")
	flag.Parse()
	if err := run(os.Stdout, *root); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string) error {
	m, err := count(root)
	if err != nil {
		return err
	}
	m.print(out)
	deps, err := dependencies(root, "./definitions")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\ndefinitions pulls in %d packages, %d of them of Temporal\n", deps.all, deps.temporal)
	return nil
}

func (m *module) print(out io.Writer) {
	packages := slices.SortedFunc(slices.Values(m.packages), func(a, b *pkg) int { return b.code - a.code })
	fmt.Fprintf(out, "%-32s %7s %7s %6s\n", "package", "code", "tests", "files")
	code, tests, files := 0, 0, 0
	for _, p := range packages {
		fmt.Fprintf(out, "%-32s %7d %7d %6d\n", p.path, p.code, p.tests, p.files)
		code, tests, files = code+p.code, tests+p.tests, files+p.files
	}
	fmt.Fprintf(out, "%-32s %7d %7d %6d\n", fmt.Sprintf("%d packages", len(packages)), code, tests, files)

	fmt.Fprintf(out, "\nfunctions: %d; lines median %d, p90 %d, max %d (%s)\n",
		len(m.functions), m.quantile(0.5), m.quantile(0.9), m.quantile(1), m.functions[len(m.functions)-1].name)
	m.printTypes(out, "structs by fields", func(t *typ) int { return t.fields })
	m.printTypes(out, "types by methods", func(t *typ) int { return t.methods })

	fmt.Fprintf(out, "\nstructs with more than %d fields and more than %d methods:\n", manyFields, manyMethods)
	for _, t := range m.types {
		if t.fields > manyFields && t.methods > manyMethods {
			fmt.Fprintf(out, "  %s: %d fields, %d methods\n", t.name, t.fields, t.methods)
		}
	}
	fmt.Fprintf(out, "\nfiles of more than %d lines:\n", longFile)
	for _, f := range m.longFiles {
		fmt.Fprintf(out, "  %s: %d\n", f.name, f.lines)
	}
}

// printTypes lists the types that have the most of something.
func (m *module) printTypes(out io.Writer, title string, of func(*typ) int) {
	fmt.Fprintf(out, "\n%s:\n", title)
	largest := slices.SortedStableFunc(slices.Values(m.types), func(a, b *typ) int { return of(b) - of(a) })
	for _, t := range largest[:min(shown, len(largest))] {
		fmt.Fprintf(out, "  %s: %d\n", t.name, of(t))
	}
}
