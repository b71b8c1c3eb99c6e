package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/starlark"
)

// A page is what is written of the script.
type page struct {
	out      strings.Builder
	comments []string // for above the next line
	mark     int      // len(comments) before the current template
}

// line writes a line below its comments.
func (p *page) line(indent int, format string, args ...any) {
	margin := strings.Repeat("    ", indent)
	for _, comment := range p.comments {
		p.out.WriteString(margin + "# " + comment + "\n")
	}
	p.comments = nil
	p.out.WriteString(margin)
	fmt.Fprintf(&p.out, format, args...)
	p.out.WriteByte('\n')
}

// paste writes code as it is.
func (p *page) paste(indent int, code string) {
	p.out.WriteString(starlark.Indent(code, strings.Repeat("    ", indent)) + "\n")
}

// comment adds a comment above the next line, once.
func (p *page) comment(format string, args ...any) {
	if text := view.Line(fmt.Sprintf(format, args...)); !slices.Contains(p.comments, text) {
		p.comments = append(p.comments, text)
	}
}
