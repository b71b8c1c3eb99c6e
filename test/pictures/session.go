// Package pictures draws terminals as SVG, still or as they changed.
package pictures

import (
	"fmt"
	"html"
	"strings"
	"time"

	"github.com/hinshun/vt10x"
)

// A Frame is what a terminal had been sent by a time.
type Frame struct {
	At   time.Duration // since the first frame
	Sent string
}

// Sizes of the picture, in pixels.
const (
	cellWidth  = 8.4
	rowHeight  = 18
	margin     = 16
	fontSize   = 14
	lastsAtEnd = 6 * time.Second // before it begins anew
)

// colours are those of SGR 30 to 37 and 90 to 97, on a dark ground.
var colours = [16]string{
	"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#8b949e", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
}

// Session draws what a terminal of some columns and rows showed, as an SVG that plays
// without scripts. Rows that the last frame does not need are left out.
func Session(frames []Frame, columns, rows int) string {
	screens := make([][]string, len(frames))
	used := 0
	for i, f := range frames {
		screens[i] = screen(f.Sent, columns, rows)
		used = max(used, len(screens[i]))
	}
	width, height := float64(columns)*cellWidth+2*margin, used*rowHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<style>\ntext{font:%dpx ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre}\n", fontSize)
	b.WriteString(timeline(frames))
	fmt.Fprintf(&b, "</style>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#0d1117\"/>\n")
	for i, lines := range screens {
		fmt.Fprintf(&b, "<g id=\"f%d\">\n", i)
		for row, line := range lines {
			if line != "" {
				fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text>\n", margin, margin+fontSize+row*rowHeight, line)
			}
		}
		b.WriteString("</g>\n")
	}
	return b.String() + "</svg>\n"
}

// timeline shows each frame in its time, over and over. Where nothing moves, the last one
// is shown.
func timeline(frames []Frame) string {
	if len(frames) < 2 {
		return ""
	}
	whole := frames[len(frames)-1].At + lastsAtEnd
	percent := func(at time.Duration) float64 { return 100 * float64(at) / float64(whole) }
	var b strings.Builder
	for i, f := range frames {
		until, at := 100.0, percent(f.At)
		if i+1 < len(frames) {
			until = percent(frames[i+1].At)
		}
		fmt.Fprintf(&b, "#f%d{animation:k%d %.1fs step-end infinite", i, i, whole.Seconds())
		if i+1 < len(frames) {
			b.WriteString(";visibility:hidden")
		}
		fmt.Fprintf(&b, "}\n@keyframes k%d{0%%{visibility:%s}", i, map[bool]string{true: "visible", false: "hidden"}[at == 0])
		if at > 0 {
			fmt.Fprintf(&b, "%.2f%%{visibility:visible}", at)
		}
		if until < 100 {
			fmt.Fprintf(&b, "%.2f%%{visibility:hidden}", until)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// screen gives the rows of a terminal as the content of SVG texts.
func screen(sent string, columns, rows int) (lines []string) {
	terminal := vt10x.New(vt10x.WithSize(columns, rows))
	// Faint is a grey: the emulator does not have it.
	_, _ = terminal.Write([]byte(strings.ReplaceAll(sent, "\x1b[2m", "\x1b[90m")))
	for y := range rows {
		lines = append(lines, line(terminal, y, columns))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func line(terminal vt10x.Terminal, y, columns int) string {
	var b, span strings.Builder
	var style string
	flush := func() {
		switch text := html.EscapeString(span.String()); {
		case text == "":
		case style == "":
			b.WriteString(text)
		default:
			b.WriteString("<tspan " + style + ">" + text + "</tspan>")
		}
		span.Reset()
	}
	last := columns
	for last > 0 && strings.TrimSpace(strings.Trim(string(terminal.Cell(last-1, y).Char), "\x00")) == "" {
		last--
	}
	for x := range last {
		cell := terminal.Cell(x, y)
		if s := styleOf(cell); s != style {
			flush()
			style = s
		}
		if cell.Char == 0 {
			cell.Char = ' '
		}
		span.WriteRune(cell.Char)
	}
	flush()
	return b.String()
}

// bold is the bit of a cell's mode that vt10x does not name.
const bold = 1 << 2

func styleOf(cell vt10x.Glyph) string {
	var styles []string
	if cell.FG.ANSI() {
		styles = append(styles, fmt.Sprintf("fill=%q", colours[cell.FG]))
	}
	if cell.Mode&bold != 0 {
		styles = append(styles, `font-weight="bold"`)
	}
	return strings.Join(styles, " ")
}
