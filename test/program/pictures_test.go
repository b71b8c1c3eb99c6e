package program_test

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pictures"
)

// images are the pictures of the documentation.
const images = "../../docs/images"

// How long a person in a picture takes to read and to type.
const (
	reads = 1500 * time.Millisecond
	types = 300 * time.Millisecond
)

// TestPictures plays the first call of README.md at a terminal and in a browser. The
// terminal ends as the picture in docs/images does; with -update (make pictures) it
// draws the pictures anew.
func TestPictures(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	r.command(cloneCommand, false)
	r.command(runCommand, false)
	const command = "perdure call prepare_review > result.json"
	term := startInTerminal(t, coloured(r.script(command)))
	frames := &sessionFrames{began: time.Now(), show: strings.NewReplacer(r.mcp, defaultListen).Replace, term: term}
	typed := "$ "
	for i, word := range append([]string{""}, strings.SplitAfter(command, " ")...) {
		typed += word
		frames.add(time.Duration(i)*types, typed)
	}
	frames.began = time.Now().Add(-frames.last().At - types)
	frames.before = "$ " + command + "\r\n"
	for _, field := range readmeForm {
		frames.until(t, field.prompt)
		frames.rest(reads)
		for word := range strings.SplitAfterSeq(field.typed, " ") {
			term.types(word)
			frames.rest(types)
		}
		term.types("\n")
	}
	frames.rest(types)
	if err := receive(t, term.ended, "the call to end"); err != nil {
		t.Error(err)
	}
	frames.take()
	file := filepath.Join(images, "call.svg")
	svg := pictures.Session(frames.list, terminalColumns, terminalRows)
	if *perduretest.Update {
		putFile(t, file, svg)
		photographPage(t, r)
		return
	}
	if got, want := lastScreen(svg), lastScreen(readText(t, file)); !showsAs(got, want) {
		t.Errorf("%s shows\n%s\nthe program now\n%s\nrun make pictures", file, want, got)
	}
}

// lastScreen is the text of the last frame of a picture.
func lastScreen(svg string) string {
	svg = svg[strings.LastIndex(svg, "<g "):]
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(svg, ""))
}

// photographPage takes a picture of the page on which the elicitation is answered.
func photographPage(t *testing.T, r *reader) {
	t.Helper()
	browser := newScriptedBrowser(t)
	call := startInTerminal(t, coloured(r.script("perdure call prepare_review")))
	call.shows(readmeForm[0].prompt)
	page := regexp.MustCompile(`http://\S+/approvals/\S+`).FindString(call.rows())
	if err := chromedp.Do(browser, chromedp.EmulateViewport(900, 600), chromedp.Navigate(r.dev.signInLink(t)), chromedp.Navigate(page),
		chromedp.WaitVisible(chromedp.CSS(`button[value="accept"]`))); err != nil {
		t.Fatal(err)
	}
	picture := perduretest.Must(chromedp.Run(browser, chromedp.FullScreenshot(100)))(t)
	perduretest.NoError(t, os.WriteFile(filepath.Join(images, "approval.png"), picture, 0o644))
}

// A sessionFrames is what a terminal was sent, and when.
type sessionFrames struct {
	began  time.Time
	show   func(text string) string
	before string // what is on the screen before the command begins
	term   *terminal
	list   []pictures.Frame
}

func (r *sessionFrames) last() pictures.Frame { return r.list[len(r.list)-1] }

func (r *sessionFrames) add(at time.Duration, sent string) {
	if len(r.list) == 0 || r.last().Sent != sent {
		r.list = append(r.list, pictures.Frame{At: at, Sent: sent})
	}
}

// take adds what the terminal was sent until now.
func (r *sessionFrames) take() {
	r.add(time.Since(r.began), r.show(r.before+strings.ReplaceAll(r.term.text(), "\n", "\r\n")))
}

func (r *sessionFrames) rest(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(types / 6) {
		r.take()
	}
}

// until records until the terminal has shown a text.
func (r *sessionFrames) until(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.HasSuffix(r.term.text(), text); r.rest(types) {
		if time.Now().After(end) {
			t.Fatalf("the terminal does not show %q", text)
		}
	}
	r.take()
}
