// Command bench measures composites of perdure beside bare Temporal workflows
// of the same shape, in one run on one machine.
//
//	go run ./bench -perdure bin/perdure -load ../shared/conformance
//
// The composites are those of load/bench.yaml there, called by its load client
// over MCP against its backend: once with tools as unsafe as they are by
// default, once with the reading tools declared read. The bare workflows are executed on
// an embedded server tuned alike. Those with the same hops are behind an MCP server of
// mcp-go and call the same backend; the activities of the others do nothing: what they
// take is Temporal's share. One table in Markdown comes out.
//
//	go run ./bench -perdure bin/perdure -before old/perdure
//
// measures two builds side by side instead. With -rounds 5 each column is measured five
// times, in turn with the others, and medians come out: what else the machine does then
// meets all alike.
//
//	go run ./bench -perdure bin/perdure-nodev -production
//
// measures the composites on what production consists of: PostgreSQL, Temporal on it, two
// gateways and one or two workers. It says how much processor time each takes for a run,
// and how much the database grows.
//
//	go run ./bench -perdure bin/perdure-nodev -gates 10000
//
// measures what runs cost there that wait for a person, whose callers were given handles.
//
//	go run ./bench -perdure bin/perdure -waiting 1000
//
// measures what calls cost a gateway that wait for a person.
//
//	go run ./bench -perdure bin/perdure -bombs ../internal/starlark/testdata/bombs
//
// sends hostile scripts to a server that has a thousand other runs under way, and
// says how long each took until its error.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/test/topology/standalone"
)

// A shape is what one row of the table measures.
type shape struct {
	name      string
	arguments string
	calls     int  // of one caller; fewer for long ones
	script    bool // it is another shape as a script, beside which there is no bare one
	direct    bool // it is a tool of the backend, which is passed through without a workflow
}

var shapes = []shape{
	{name: "one_step", arguments: `{"message":"hi"}`, calls: 200},
	{name: "three_parallel", arguments: `{"message":"hi"}`, calls: 200},
	{name: "chain_of_5", arguments: `{"message":"hi"}`, calls: 200},
	{name: "chain_script", arguments: `{"message":"hi"}`, calls: 200, script: true},
	{name: "foreach_50", arguments: `{}`, calls: 40},
	{name: "foreach_script", arguments: `{}`, calls: 40, script: true},
	{name: "approval", arguments: `{"key":"k"}`, calls: 100},
	{name: "be_echo", arguments: `{"message":"hi"}`, calls: 500, direct: true},
}

// A figure is what was measured of one shape in one way.
type figure struct {
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	PerSecond float64 `json:"per_second"`
	Calls     int     `json:"calls"`
	Errors    int     `json:"errors"`
	ToolError int     `json:"tool_errors"`
	First     string  `json:"first_error"`

	CPU time.Duration `json:"-"` // of the server, for one run; 0 = not measured
}

// A way is one column: how a shape is run. Measure makes the sequential and
// the concurrent measurement of a shape.
type way struct {
	name    string
	idle    bool // it calls no backend
	measure func(ctx context.Context, s shape, callers int, d time.Duration) (sequential, concurrent figure, err error)
}

func main() {
	if len(os.Args) > 1 {
		if program := standalone.Programs()[os.Args[1]]; program != nil { // started by production
			os.Args = slices.Delete(os.Args, 1, 2)
			program()
			return
		}
	}
	perdure := flag.String("perdure", "bin/perdure", "the program to measure")
	before := flag.String("before", "", "measure this build beside it, instead of bare workflows")
	load := flag.String("load", "../shared/conformance", "where the load client and its backend are")
	callers := flag.Int("c", 16, "concurrent callers")
	d := flag.Duration("d", 8*time.Second, "how long they call, for each shape")
	waiting := flag.Int("waiting", 0, "measure instead what so many calls cost a gateway that wait for a person")
	bombs := flag.String("bombs", "", "measure instead how the scripts of this directory end, which want all of the memory or never end")
	others := flag.Int("others", 1000, "other runs beside these")
	pause := flag.Duration("pause", 2*time.Minute, "how long each of these waits between its two calls")
	production := flag.Bool("production", false, "measure instead what runs take of each process of production, with one worker and with two; -perdure is built with -tags nodev")
	tools := flag.Int("tools", 0, "measure instead what it takes to list so many tools, beside an MCP server of mcp-go that has them")
	gates := flag.Int("gates", 0, "measure instead what so many runs that wait for a person cost production")
	calls := flag.Int("n", 0, "calls of one caller, for each shape; 0: 40 to 200")
	rounds := flag.Int("rounds", 1, "measure so often, all columns in turn, and give medians")
	only := flag.String("only", "", "measure only shapes whose names begin so")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := error(nil)
	switch {
	case *production:
		err = measureProduction(ctx, *perdure, *load, selected(*only, *calls), *callers, *d)
	case *tools > 0:
		err = measureTools(ctx, *perdure, *tools, cmp.Or(*calls, 100))
	case *gates > 0:
		err = measureGates(ctx, *perdure, *load, *gates)
	case *waiting > 0:
		err = measureWaiting(ctx, *perdure, *waiting)
	case *bombs != "":
		err = measureBombs(ctx, *perdure, *bombs, *others, *pause)
	default:
		err = run(ctx, *perdure, *before, *load, selected(*only, *calls), effort{*callers, *d, *rounds})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// selected are the shapes whose names begin so, with so many calls of one caller; 0 = their
// own.
func selected(prefix string, calls int) (chosen []shape) {
	for _, s := range shapes {
		if strings.HasPrefix(s.name, prefix) {
			s.calls = cmp.Or(calls, s.calls)
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// An effort is how much is measured of each shape.
type effort struct {
	callers int
	d       time.Duration // that they call
	rounds  int
}

func run(ctx context.Context, perdure, before, load string, shapes []shape, e effort) error {
	lab, err := newLab(ctx, perdure, load)
	if err != nil {
		return err
	}
	defer lab.close()
	ways, done, err := beside(ctx, lab, before, load)
	if err != nil {
		return err
	}
	defer done()
	fmt.Printf("%d cores, %d callers for %s, %d rounds; p50 / p99 in ms of one caller, runs per second of all, processor time of the server for a run\n\n", runtime.NumCPU(), e.callers, e.d, e.rounds)
	fmt.Print("| shape |")
	for _, w := range ways {
		fmt.Printf(" %s |", w.name)
	}
	fmt.Print("\n|" + strings.Repeat("---|", len(ways)+1) + "\n")
	for _, s := range shapes {
		cells, err := row(ctx, s, ways, e)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %s |\n", s.name, strings.Join(cells, " | "))
	}
	return nil
}

// row measures a shape in each way, in turn.
func row(ctx context.Context, s shape, ways []way, e effort) (cells []string, err error) {
	measured := make([][]figure, len(ways))
	for range e.rounds {
		for i, w := range ways {
			if s.script && strings.HasPrefix(w.name, "bare") || s.direct && w.idle {
				continue
			}
			seq, con, err := w.measure(ctx, s, e.callers, e.d)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", s.name, w.name, err)
			}
			if bad := seq.Errors + seq.ToolError + con.Errors + con.ToolError; bad > 0 {
				return nil, fmt.Errorf("%s of %s: %d calls failed, the first: %s%s", s.name, w.name, bad, seq.First, con.First)
			}
			seq.PerSecond = con.PerSecond
			measured[i] = append(measured[i], seq)
		}
	}
	for _, figures := range measured {
		cells = append(cells, cell(figures))
	}
	return cells, nil
}

// cell shows the medians of what was measured; "" = nothing.
func cell(of []figure) string {
	if len(of) == 0 {
		return ""
	}
	median := func(get func(figure) float64) float64 {
		all := make([]float64, len(of))
		for i, f := range of {
			all[i] = get(f)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	text := fmt.Sprintf("%.1f / %.1f, %.0f/s", median(func(f figure) float64 { return f.P50 }), median(func(f figure) float64 { return f.P99 }), median(func(f figure) float64 { return f.PerSecond }))
	if cpu := median(func(f figure) float64 { return float64(f.CPU) / float64(time.Millisecond) }); cpu > 0 {
		text += fmt.Sprintf(", %.1f ms", cpu)
	}
	return text
}

// beside are the columns: the build of a lab beside an earlier one, or beside bare
// workflows.
func beside(ctx context.Context, l *lab, before, load string) (ways []way, done func(), err error) {
	if before != "" {
		old, err := newLab(ctx, before, load)
		if err != nil {
			return nil, nil, err
		}
		return []way{
			{name: "before", measure: old.measure("default")},
			{name: "now", measure: l.measure("default")},
			{name: "before, reads declared", measure: old.measure("read")},
			{name: "now, reads declared", measure: l.measure("read")},
		}, old.close, nil
	}
	bare, err := newBare(ctx, l.dir, l.urls["backend"])
	if err != nil {
		return nil, nil, err
	}
	own := func() (time.Duration, error) { return processor(os.Getpid()) }
	return []way{
		{name: "perdure", measure: l.measure("default")},
		{name: "bare, same hops", measure: l.calling(bare.hops.url+"activities", own)},
		{name: "bare, activities", idle: true, measure: bare.measure(false)},
		{name: "perdure, reads declared", measure: l.measure("read")},
		{name: "bare, same hops, local", measure: l.calling(bare.hops.url+"local", own)},
		{name: "bare, local activities", idle: true, measure: bare.measure(true)},
	}, bare.close, nil
}
