package program_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
)

// pages are read in this order: the tutorial goes on where README.md ends.
var pages = []string{"../../README.md", "../../docs/tutorial.md"}

// What the test does in place of what the pages say.
const (
	cloneCommand = "git clone https://github.com/perdure/perdure && cd perdure"
	cloneInstead = "git clone --quiet ../source perdure && cd perdure"
	runCommand   = "make run"
	runInstead   = "perdure dev --data .perdure" // what the Makefile has for it
	anyRun       = "k3v9a2m4qxw7zr5b"            // stands for the newest run
)

// readmeStops are blocks of commands that end with status 1.
var readmeStops = []string{"--timeout 5s", "call note ", "validate mistakes.yaml"}

// readmeForm is what a person types where perdure call asks.
var readmeForm = []struct{ prompt, typed string }{
	{"[c]ancel? ", "a"},
	{"verdict [comment]: ", "1"},
	{"note: ", "Looks good."},
}

// A readmeBlock is a fenced block: sh is run, text is what the sh before it
// prints, json is the configuration of a client.
type readmeBlock struct {
	language, text string
}

func readmeBlocks(t *testing.T) []readmeBlock {
	t.Helper()
	var blocks []readmeBlock
	var open *readmeBlock
	var text string
	for _, page := range pages {
		text += readText(t, page)
	}
	for line := range strings.Lines(text) {
		switch {
		case open == nil && strings.HasPrefix(line, "```"):
			open = &readmeBlock{language: strings.TrimSpace(line[3:])}
		case open != nil && strings.HasPrefix(line, "```"):
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return blocks
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text := perduretest.Read(t, file)
	return string(text)
}

// A reader does what the pages say, in their order.
type reader struct {
	t       *testing.T
	dir     string
	mcp, ui string      // addresses, in place of the standard ones
	dev     *devProcess // that was started last
	left    *terminal   // a call whose question is open
	output  func() string
}

// TestReadme runs every command of README.md and of the tutorial, and compares
// what they show.
func TestReadme(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	blocks := readmeBlocks(t)
	for i, b := range blocks {
		switch b.language {
		case "sh":
			shown := i+1 < len(blocks) && blocks[i+1].language == "text"
			r.command(strings.TrimSpace(b.text), shown)
		case "text":
			r.compare(b.text)
		case "json":
			r.connect(b.text)
		default:
			t.Errorf("a block of %q: mark it sh, text or json", b.language)
		}
	}
	r.dev.interrupt(15 * time.Second)
}

func newReader(t *testing.T) *reader {
	t.Helper()
	source := newRepository(t)
	putFile(t, filepath.Join(source, "docs/first.md"), "# First steps\n")
	for _, args := range [][]string{{"add", "."}, {"commit", "--quiet", "-m", "Explain the first steps"}} {
		if out, err := group(source, exec.Command("git", args...)).CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	dir := t.TempDir()
	perduretest.NoError(t, os.Symlink(source, filepath.Join(dir, "source")))
	r := &reader{t: t, dir: filepath.Join(dir, "work")}
	perduretest.NoError(t, os.Mkdir(r.dir, 0o755))
	for _, address := range []*string{&r.mcp, &r.ui} {
		var err error
		if *address, err = pgtest.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// command does what a block says; shown says whether its output stands below.
func (r *reader) command(text string, shown bool) {
	r.t.Helper()
	r.t.Log("$ " + text)
	switch lines := strings.Split(text, "\n"); {
	case text == cloneCommand:
		r.shell(cloneInstead)
		r.dir = filepath.Join(r.dir, "perdure")
	case text == runCommand:
		r.serve(strings.Fields(runInstead))
	case strings.HasPrefix(text, "perdure dev "):
		r.serve(strings.Fields(text))
	case lines[len(lines)-1] == "perdure call prepare_review":
		r.callInTerminal(text, shown)
	case strings.HasPrefix(text, "kill -9 "):
		r.shell(text)
		receive(r.t, r.dev.ended, "the killed process to end")
	default:
		if strings.HasPrefix(text, "perdure call ") { // it may call what was written just before
			name := strings.Fields(text)[2]
			until(r.t, name+" to be served", func() bool { return strings.Contains(r.dev.run(r.t, "definitions"), name+" ") })
		}
		r.shell(text)
	}
}

// serve starts dev, ends the one before, and lets a person who was asked by
// that one answer.
func (r *reader) serve(command []string) {
	r.t.Helper()
	if r.dev != nil {
		select {
		case <-r.dev.ended: // it was killed
		default:
			r.dev.interrupt(15 * time.Second)
		}
	}
	args := append(command[1:], "--listen", r.mcp, "--ui-listen", r.ui, "--temporal-listen", "127.0.0.1:0")
	r.dev = &devProcess{process{t: r.t, dir: r.dir, address: r.mcp, args: args}}
	r.dev.start()
	until(r.t, "the banner", func() bool { return strings.Contains(r.dev.output.String(), "mcpServers") })
	r.output = r.dev.output.String
	if r.left != nil {
		fillIn(r.left)
		if err := receive(r.t, r.left.ended, "the call that was left open to end"); err != nil {
			r.t.Errorf("the call that was left open: %v", err)
		}
		if text := r.left.text(); !strings.Contains(text, `"decision": "accept"`) {
			r.t.Errorf("the call that was left open has no result:\n%s", text)
		}
		r.left = nil
	}
	response, err := http.Get("http://" + r.ui)
	if err != nil {
		r.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		r.t.Errorf("the Web UI answers %s", response.Status)
	}
}

// callInTerminal calls with a person who answers; where no output is shown, the
// person leaves the question open.
func (r *reader) callInTerminal(text string, shown bool) {
	r.t.Helper()
	term := startInTerminal(r.t, coloured(r.script(text)))
	term.shows(readmeForm[0].prompt)
	if !shown {
		r.left = term
		return
	}
	fillIn(term)
	if err := receive(r.t, term.ended, "the call to end"); err != nil {
		r.t.Errorf("%s: %v", text, err)
	}
	r.output = term.rows
}

func fillIn(term *terminal) {
	for _, field := range readmeForm {
		term.shows(field.prompt)
		term.enter(field.typed)
	}
}

func (r *reader) script(text string) *exec.Cmd {
	if strings.Contains(text, anyRun) {
		var list []struct{ ID string }
		if err := json.Unmarshal([]byte(r.dev.run(r.t, "runs", "list", "--limit", "1", "-o", "json")), &list); err != nil || len(list) != 1 {
			r.t.Fatalf("no run to name in %s: %v", text, err)
		}
		_, id, _ := strings.Cut(list[0].ID, "/")
		text = strings.ReplaceAll(text, anyRun, id)
	}
	return group(r.dir, exec.Command("sh", "-euc", text))
}

// shell runs commands to their end.
func (r *reader) shell(text string) {
	r.t.Helper()
	cmd := r.script(text)
	watchdog := time.AfterFunc(patience, func() { killGroup(cmd) })
	defer watchdog.Stop()
	out, err := cmd.CombinedOutput()
	stops := slices.ContainsFunc(readmeStops, func(s string) bool { return strings.Contains(text, s) })
	if (err != nil) != stops {
		r.t.Errorf("%s: %v\n%s", text, err, out)
	}
	r.output = func() string { return string(out) }
}

// compare compares what was printed with a block of output.
func (r *reader) compare(want string) {
	r.t.Helper()
	got := strings.NewReplacer(r.mcp, defaultListen, r.ui, defaultUIListen).Replace(r.output())
	if !showsAs(got, want) {
		r.t.Errorf("printed\n%s\nthe page shows\n%s", got, want)
	}
}

// showsAs compares what was printed with what is expected. There … is anything, alone
// on a line any lines.
func showsAs(got, want string) bool {
	var pattern strings.Builder
	for _, line := range comparable(want) {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`)
	}
	text := strings.Join(comparable(got), "\n") + "\n"
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(text)
}

// readmeVaries is what differs from run to run.
var readmeVaries = []struct{ pattern, instead string }{
	{`([a-z][/-])[a-z2-9]{16}\b`, "${1}ID"},
	{`(at Temporal 127\.0\.0\.1:)\d+`, "${1}PORT"},
	{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "TIME"},
	{`\b(\d+m)?\d+(\.\d+)?m?s\b`, "DURATION"},
	{`(?m)^ {8,}`, "        "}, // what stands below a column
	{`(\S) {2,}`, "$1 "},       // columns are as wide as what stands in them
}

// comparable are lines without what does not matter: what varies, white space
// at their ends, and the order of steps that end one after the other.
func comparable(text string) []string {
	for _, v := range readmeVaries {
		text = regexp.MustCompile(v.pattern).ReplaceAllString(text, v.instead)
	}
	var lines []string
	for line := range strings.Lines(strings.TrimRight(text, "\n ")) {
		lines = append(lines, strings.TrimRight(line, "\n "))
	}
	isStep := func(line string) bool {
		return strings.HasPrefix(line, "  ✓ ") || strings.HasSuffix(line, ": completed")
	}
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && isStep(lines[to]) {
			to++
		}
		slices.Sort(lines[from:to])
		from = max(from, to-1)
	}
	return lines
}

// A clientEntry is what the configuration of a client says of a server.
type clientEntry struct {
	Type    string   `json:"type"`
	URL     string   `json:"url"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// clientEntries reads a configuration, strictly.
func clientEntries(t *testing.T, text string) clientEntry {
	t.Helper()
	var config struct {
		MCPServers map[string]clientEntry `json:"mcpServers"`
		Servers    map[string]clientEntry `json:"servers"`
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if len(config.MCPServers)+len(config.Servers) != 1 {
		t.Fatalf("not one server in %s", text)
	}
	for _, servers := range []map[string]clientEntry{config.MCPServers, config.Servers} {
		if entry, ok := servers["perdure"]; ok {
			return entry
		}
	}
	t.Fatalf("no perdure in %s", text)
	return clientEntry{}
}

// connect connects as a client with a configuration would.
func (r *reader) connect(text string) {
	r.t.Helper()
	entry := clientEntries(r.t, text)
	var c *client.Client
	if entry.Command == "" {
		banner := clientEntries(r.t, regexp.MustCompile(`\{"mcpServers.*`).FindString(r.dev.output.String()))
		if entry.Type != banner.Type || strings.Replace(entry.URL, defaultListen, r.mcp, 1) != banner.URL {
			r.t.Errorf("the configuration says %+v, the banner %+v", entry, banner)
		}
		c = r.dev.dial(r.t, modern, nil)
	} else {
		c = r.startByClient(entry)
	}
	if tools := names(r.t, c); !slices.Contains(tools, "prepare_review") {
		r.t.Errorf("the client sees %v", tools)
	}
}

// startByClient has a client start perdure.
func (r *reader) startByClient(entry clientEntry) *client.Client {
	r.t.Helper()
	places := strings.NewReplacer(
		"/path/to/perdure/bin/", "", "/path/to/data", filepath.Join(r.t.TempDir(), "data"), "/path/to/your/repository", r.dir)
	var args []string
	for _, arg := range entry.Args {
		args = append(args, places.Replace(arg))
	}
	c, err := client.NewStdioMCPClient(places.Replace(entry.Command), nil, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return initialize(r.t, c, legacy)
}

// TestReadmeNames holds what README.md names against what there is.
func TestReadmeNames(t *testing.T) {
	t.Parallel()
	text, makefile := readText(t, "../../README.md"), readText(t, "../../Makefile")
	for _, m := range regexp.MustCompile("(?m)(?:`|^)make ([a-z]+)").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("there is no make %s", m[1])
		}
	}
	if !strings.Contains(makefile, "\n\t$(BIN) dev --data $(DATA)\n") || !strings.Contains(makefile, "\nDATA     ?= .perdure\n") {
		t.Errorf("make run does something else than %s", runInstead)
	}
	if !strings.Contains(text, "<http://"+defaultUIListen+">") {
		t.Error("where the Web UI is")
	}
}

// TestLinks follows the links of README.md and docs to files and their headings.
func TestLinks(t *testing.T) {
	t.Parallel()
	docs := perduretest.Must(filepath.Glob("../../docs/*.md"))(t)
	index := readText(t, "../../docs/index.md")
	for _, page := range append(docs, "../../README.md") {
		if name := filepath.Base(page); name != "index.md" && !strings.Contains(index, name+")") {
			t.Errorf("docs/index.md does not list %s", name)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`).FindAllStringSubmatch(readText(t, page), -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if m[2] != "" && !slices.Contains(anchors(readText(t, target)), m[2]) {
				t.Errorf("%s: %s has no heading for %s", page, target, m[2])
			}
		}
	}
}

// anchors are the fragments by which the headings of a page are linked to.
func anchors(page string) (fragments []string) {
	noise := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		heading := strings.ToLower(noise.ReplaceAllString(m[1], ""))
		fragments = append(fragments, "#"+strings.ReplaceAll(heading, " ", "-"))
	}
	return fragments
}
