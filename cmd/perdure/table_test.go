package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

// Columns line up, whatever the width of letters and with styles; on a terminal the
// widest are cut until a line fits, and what does not fit then goes to the next.
func TestTable(t *testing.T) {
	t.Parallel()
	rows := "漢字\t" + yellow.mark("running", true) + "\t1s\n" +
		"ab\tsomething that is very long, longer than all else here\tlast\n" +
		"\tonly one\n"
	write := func(width int) string {
		var out strings.Builder
		c := &console{outTerminal: width > 0, size: func() (int, int) { return width, 24 }}
		w := c.table(&out)
		fmt.Fprint(w, rows)
		perduretest.NoError(t, w.Flush())
		return strings.NewReplacer(string(yellow), "", string(unstyled), "").Replace(out.String())
	}
	want := `漢字  running                                                 1s
ab    something that is very long, longer than all else here  last
      only one
`
	if diff := cmp.Diff(want, write(0)); diff != "" {
		t.Error(diff)
	}
	want = `漢字  running                     1s
ab    something that is very lo…  last
      only one
`
	if diff := cmp.Diff(want, write(38)); diff != "" {
		t.Error(diff)
	}
	var out strings.Builder
	w := (&console{outTerminal: true, size: func() (int, int) { return 40, 24 }}).wrappingTable(&out)
	fmt.Fprint(w, "name\tmore than one line has room for, with averyveryverylongword\n")
	perduretest.NoError(t, w.Flush())
	want = `name  more than one line has room for,
      with averyveryverylongword
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	w = (&console{outTerminal: true, size: func() (int, int) { return 40, 24 }}).wrappingTable(&out)
	fmt.Fprint(w, "name\ta file that has a very long path\tnode a program with arguments that people must read\n")
	perduretest.NoError(t, w.Flush())
	want = `name  a file that has a very long path
  node a program with arguments that
  people must read
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	w = (&console{outTerminal: true, size: func() (int, int) { return 60, 24 }}).table(&out)
	fmt.Fprint(w, "prepare_review/pzpuz2phwkkzr5m\tfailed\t2026-11-22 04:56\tada\tstep write: the server is gone\n"+
		"call/8\twaiting\t2026-11-22 04:57\tada\tsum\n")
	perduretest.NoError(t, w.Flush())
	want = `prepare_review/pzpuz2phwkkzr5m  failed   2026-11-22 04:56
  ada  step write: the server is gone
call/8                          waiting  2026-11-22 04:57
  ada  sum
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	for line := range strings.Lines(write(38)) {
		if n := view.Cells(strings.TrimSuffix(line, "\n")); n > 38 {
			t.Errorf("%q takes %d cells", line, n)
		}
	}
}
