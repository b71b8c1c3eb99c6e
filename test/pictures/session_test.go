package pictures

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"
)

// A session is drawn row by row, with styles and what is markup escaped, each frame in
// its time, and what does not move shows the last one.
func TestSession(t *testing.T) {
	t.Parallel()
	svg := Session([]Frame{
		{0, "$ run\r\n"},
		{time.Second, "$ run\r\n\x1b[32m✓\x1b[0m \x1b[1ma\x1b[0m <b> \x1b[2m3s\x1b[0m"},
		{2 * time.Second, "$ run\r\n\x1b[32m✓\x1b[0m \x1b[1ma\x1b[0m <b>\x1b[1A\r\x1b[Jgone"},
	}, 20, 5)
	for _, want := range []string{
		`<text x="16" y="30">$ run</text>`,
		`<text x="16" y="48"><tspan fill="#3fb950">✓</tspan> <tspan font-weight="bold">a</tspan> &lt;b&gt; <tspan fill="#8b949e">3s</tspan></text>`,
		`<text x="16" y="30">gone</text>`,
		"#f0{animation:k0 8.0s step-end infinite;visibility:hidden}\n@keyframes k0{0%{visibility:visible}12.50%{visibility:hidden}}",
		"#f2{animation:k2 8.0s step-end infinite}\n@keyframes k2{0%{visibility:hidden}25.00%{visibility:visible}}",
		`height="68"`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("lacks %s:\n%s", want, svg)
		}
	}
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
