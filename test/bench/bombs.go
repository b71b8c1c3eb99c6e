package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/definitions"
)

// A bomb is a script that wants all of the memory, or never ends. Each of the
// corpus is sent to a perdure dev that has other runs under way: as a composite
// tool, and as what an agent sends.
type bomb struct {
	place      string // FILE:LINE
	script     string
	definition string // of it as a composite tool; "" = it does not pass as one
}

// bombTime is within which each has to end.
const bombTime = 2 * time.Second

// plainDefinition is what the other runs are, which wait between their two calls.
const plainDefinition = `name: plain
description: Calls, waits, calls.
steps:
  - {id: first, tool: t_echo, arguments: {n: 1}}
  - {id: pause, type: wait, for: %s, dependsOn: [first]}
  - {id: second, tool: t_echo, arguments: {n: 2}, dependsOn: [pause]}
`

// A bombLab is the program under fire, with a backend in this process.
type bombLab struct {
	gatewayLab
	dev     *exec.Cmd
	session string
	calls   atomic.Int64
	pause   time.Duration // of each of the other runs
}

// measureBombs prints how long each bomb took until its error, and what became of so many other runs meanwhile.
func measureBombs(ctx context.Context, perdure, corpus string, others int, pause time.Duration) error {
	bombs, err := readBombs(corpus)
	if err != nil {
		return err
	}
	l, err := newBombLab(ctx, perdure, bombs, pause)
	if err != nil {
		return err
	}
	defer l.close()
	beside := l.beside(ctx, others)
	fmt.Print("| bomb | way | ended after | with |\n|---|---|---|---|\n")
	var fired []shot
	for _, b := range bombs {
		if b.definition != "" {
			fired = append(fired, l.fire(ctx, b, "definition", b.definition, `{}`))
		}
		sent, _ := json.Marshal(map[string]string{"script": b.script})
		fired = append(fired, l.fire(ctx, b, "sent", "execute_tool_script", string(sent)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	plain := beside()
	peak, err := statusField(l.dev.Process.Pid, "VmHWM:")
	if err != nil {
		return err
	}
	return report(fired, plain, peak, pause)
}

// A shot is one bomb in one way.
type shot struct {
	bomb
	way    string
	took   time.Duration
	failed bool // as it should have
}

func (l *bombLab) fire(ctx context.Context, b bomb, way, tool, arguments string) shot {
	began := time.Now()
	text, failed, err := l.call(ctx, tool, arguments)
	if err != nil {
		text = err.Error()
	}
	s := shot{bomb: b, way: way, took: time.Since(began), failed: failed && err == nil}
	line, _, _ := strings.Cut(text, "\n")
	fmt.Printf("| %s | %s | %d ms | %.100s |\n", b.place, way, s.took.Milliseconds(), strings.ReplaceAll(line, "|", "\\|"))
	return s
}

// A tally is what became of the other runs.
type tally struct {
	ended, failed int
	extra         []time.Duration // beyond the wait of each
	most          int64           // under way at once
	first         string          // failure
}

// beside keeps so many other runs under way until what it returns is called,
// which waits for them to end.
func (l *bombLab) beside(ctx context.Context, n int) func() tally {
	var (
		over, underWay, most atomic.Int64
		mu                   sync.Mutex
		all                  sync.WaitGroup
		t                    tally
	)
	for i := range n {
		all.Go(func() {
			time.Sleep(time.Duration(i) * l.pause / time.Duration(n)) // they come one after the other
			for again := true; again && ctx.Err() == nil; again = over.Load() == 0 {
				began := time.Now()
				most.Store(max(most.Load(), underWay.Add(1)))
				text, failed, err := l.call(ctx, "plain", `{}`)
				underWay.Add(-1)
				mu.Lock()
				if t.ended++; err != nil || failed {
					t.failed++
					t.first = strings.TrimSpace(fmt.Sprint(text, " ", err))
				}
				t.extra = append(t.extra, time.Since(began)-l.pause)
				mu.Unlock()
			}
		})
	}
	time.Sleep(l.pause) // until all are under way
	return func() tally {
		over.Store(1)
		all.Wait()
		t.most = most.Load()
		return t
	}
}

func report(fired []shot, plain tally, peak int64, pause time.Duration) error {
	slices.SortStableFunc(fired, func(a, b shot) int { return int(b.took - a.took) })
	late, survived := 0, 0
	for _, s := range fired {
		if s.took > bombTime {
			late++
		}
		if !s.failed {
			survived++
		}
	}
	slices.Sort(plain.extra)
	quantile := func(q float64) float64 {
		return plain.extra[min(int(q*float64(len(plain.extra))), len(plain.extra)-1)].Seconds()
	}
	fmt.Printf("\n%d bombs: the median ended after %d ms, the last after %d ms; %d took more than %s, %d did not fail\n",
		len(fired), fired[len(fired)/2].took.Milliseconds(), fired[0].took.Milliseconds(), late, bombTime, survived)
	fmt.Printf("%d other runs beside them, %d at once: %d failed; beyond their wait of %s they took p50 %.2f s, p99 %.2f s\n",
		plain.ended, plain.most, plain.failed, pause, quantile(0.5), quantile(0.99))
	fmt.Printf("memory of the program at its peak: %d MB\n", peak>>10)
	switch {
	case plain.failed > 0:
		return fmt.Errorf("%d other runs failed: %s", plain.failed, plain.first)
	case survived > 0:
		return fmt.Errorf("%d bombs did not fail", survived)
	}
	return nil
}

// readBombs reads the files of a directory, whose scripts stand between lines of
// three dashes.
func readBombs(dir string) ([]bomb, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.star"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no scripts in %s: %w", dir, err)
	}
	var bombs []bomb
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		line := 1
		for script := range strings.SplitSeq(string(text), "---\n") {
			bombs = append(bombs, bomb{place: fmt.Sprintf("%s:%d", filepath.Base(file), line), script: script})
			line += strings.Count(script, "\n") + 1
		}
	}
	return bombs, nil
}

// bombTools are what bombs may call.
var bombTools = map[string]func(arguments map[string]any) (*mcp.CallToolResult, error){
	"echo":       structuredArguments,
	"cursor":     structuredArguments,
	"list-pages": structuredArguments,
	"fail": func(arguments map[string]any) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError(fmt.Sprint("no luck: ", arguments["message"])), nil
	},
}

func structuredArguments(arguments map[string]any) (*mcp.CallToolResult, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	return mcp.NewToolResultStructuredOnly(arguments), nil
}

// serveBombTools offers them and gives the URL.
func serveBombTools() (string, error) {
	s := server.NewMCPServer("t", "1")
	for name, f := range bombTools {
		tool := mcp.NewToolWithRawSchema(name, "A tool of the benchmark.", json.RawMessage(`{"type":"object"}`))
		s.AddTool(tool, func(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return f(request.GetArguments())
		})
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(ln, server.NewStreamableHTTPServer(s, server.WithStateLess(true))) }() // for as long as this process
	return "http://" + ln.Addr().String() + "/mcp", nil
}

func newBombLab(ctx context.Context, perdure string, bombs []bomb, pause time.Duration) (_ *bombLab, err error) {
	dir, err := os.MkdirTemp("", "perdure-bench-")
	if err != nil {
		return nil, err
	}
	l := &bombLab{gatewayLab: gatewayLab{lab: lab{dir: dir}}, pause: pause}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.perdure, err = filepath.Abs(perdure); err != nil {
		return nil, err
	}
	backend, err := serveBombTools()
	if err != nil {
		return nil, err
	}
	if err := writeBombs(dir, backend, bombs, pause); err != nil {
		return nil, err
	}
	cmd, address, err := l.serve(ctx, "dev", "--ui-listen", "", "--definitions", "defs", "--call-patience", "0s")
	if err != nil {
		return nil, err
	}
	l.dev, l.url = cmd, "http://"+address+"/mcp"
	first, err := l.post(ctx, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err != nil {
		return nil, err
	}
	defer first.Body.Close()
	l.session = first.Header.Get("Mcp-Session-Id")
	_, err = io.Copy(io.Discard, first.Body)
	return l, err
}

// writeBombs writes the configuration, and a definition of each bomb that passes
// as one.
func writeBombs(dir, backend string, bombs []bomb, pause time.Duration) error {
	config := "backends:\n  - {name: t, url: " + strconv.Quote(backend) + ", transport: streamable-http}\nscripts: {agents: true}\n"
	if err := os.WriteFile(filepath.Join(dir, "perdure.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	defs := filepath.Join(dir, "defs")
	if err := os.Mkdir(defs, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(defs, "plain.yaml"), []byte(fmt.Sprintf(plainDefinition, pause)), 0o600); err != nil {
		return err
	}
	for i := range bombs {
		name := fmt.Sprintf("bomb_%d", i)
		text := fmt.Sprintf("name: %s\ndescription: A bomb.\ntools: [\"t_*\"]\nscript: |\n  %s\n", name, strings.ReplaceAll(strings.TrimSpace(bombs[i].script), "\n", "\n  "))
		found, diags := definitions.Parse(name+".yaml", []byte(text))
		if diags.HasErrors() || definitions.Check(found, definitions.CheckOptions{}).HasErrors() {
			continue
		}
		bombs[i].definition = name
		if err := os.WriteFile(filepath.Join(defs, name+".yaml"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// call calls a tool and gives the text of its result, and whether that is a
// failure.
func (l *bombLab) call(ctx context.Context, tool, arguments string) (text string, failed bool, err error) {
	response, err := l.post(ctx, l.session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, l.calls.Add(1), tool, arguments))
	if err != nil {
		return "", false, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m struct {
			Result *struct {
				Content []struct{ Text string }
				IsError bool
			}
			Error *struct{ Message string }
		}
		switch data := strings.TrimPrefix(lines.Text(), "data: "); {
		case json.Unmarshal([]byte(data), &m) != nil:
		case m.Error != nil:
			return m.Error.Message, true, nil
		case m.Result != nil && len(m.Result.Content) > 0:
			return m.Result.Content[0].Text, m.Result.IsError, nil
		}
	}
	return "", false, errors.Join(errors.New("the stream ended without a result"), lines.Err())
}
