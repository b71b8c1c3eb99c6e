package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/credentials"
	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
)

type doctorCommand struct {
	temporalFlags `embed:""`
	keyFlags      `embed:""`
	valueFlags    `embed:""`

	Config      string   `help:"Configuration file of the installation." placeholder:"FILE"`
	Definitions []string `help:"Directory of definitions. Repeatable." placeholder:"DIR" sep:"none"`
}

func (doctorCommand) Help() string {
	return `Looks at all that an installation consists of, from where it is started, and
changes nothing: configuration and definitions, keys, Temporal with namespace,
search attributes and workers, the database and its tables, large values, each
backend, and the clock. Give it the flags and variables of the processes. A line for each, with
what to do; the status is 1 if something does not work. Examples:

    perdure doctor
    perdure doctor --config perdure.yaml --key-file key --address temporal:7233 -o json`
}

// What a check may come to.
const (
	checkOK      = "ok"
	checkWarning = "warning" // it works, and may not do so for long
	checkFailed  = "failed"
	checkSkipped = "skipped" // it does not matter here, or cannot be looked at
)

// A check is what was found of one part of an installation.
type check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"` // what to do; of what is not ok
}

// doctorRuns is how many runs that go on, and how many others, are looked at.
const doctorRuns = 100

// doctorPatience bounds each look at something that may not answer.
const doctorPatience = 10 * time.Second

func (d doctorCommand) Run(ctx context.Context, c *console) error {
	x := &examination{doctorCommand: d}
	x.configuration()
	x.signingKeys()
	x.temporal(ctx)
	x.payloadKeys(ctx)
	x.database(ctx)
	x.largeValues()
	x.backends(ctx)
	x.clock(ctx)
	if err := x.print(c); err != nil {
		return err
	}
	if slices.ContainsFunc(x.checks, func(k check) bool { return k.Status == checkFailed }) {
		return errReported
	}
	return nil
}

// An examination collects what is found.
type examination struct {
	doctorCommand
	checks []check
	found  *loaded  // nil = there is no configuration that can be read
	clocks []remote // of others

	inputs map[runs.RunID]*commonpb.Payload // of some runs, as Temporal has them
	store  *store.Inspection                // nil = there is no database that answers
}

// A remote clock, and by how much it is ahead of ours.
type remote struct {
	of    string
	ahead time.Duration
}

func (x *examination) add(name, status, found, fix string, args ...any) {
	x.checks = append(x.checks, check{name, status, found, fmt.Sprintf(fix, args...)})
}

func (x *examination) ok(name, found string, args ...any) {
	x.add(name, checkOK, fmt.Sprintf(found, args...), "")
}

func (x *examination) configuration() {
	if x.Config == "" && len(x.Definitions) == 0 {
		x.add("configuration", checkSkipped, "none is given", "name it with --config")
		return
	}
	found, diags := load(sources{Config: x.Config, Definitions: x.Definitions})
	if !diags.HasErrors() {
		x.found = found
		x.ok("configuration", "%s, %s", plural(len(found.Backends), "backend"), plural(len(found.Definitions), "definition"))
		return
	}
	errors := slices.DeleteFunc(slices.Clone(diags), func(d definitions.Diagnostic) bool { return d.Severity != definitions.SeverityError })
	x.add("configuration", checkFailed, errors[0].String(), "correct it; perdure validate tells all mistakes, of which there are %d", len(errors))
}

func (x *examination) signingKeys() {
	flags, own := x.keyFlags, keyOf(x.Data.String())
	if _, err := os.Stat(own); err == nil && flags.KeyFile == "" && environ.Secret(keyVar) == "" {
		flags.KeyFile = own // of dev
	}
	k, err := flags.keys()
	switch {
	case err != nil && flags.KeyFile == "" && environ.Secret(keyVar) == "" && x.Config == "":
		x.add("signing key", checkSkipped, "none is given", "name it with --key-file")
		return
	case err != nil:
		x.add("signing key", checkFailed, err.Error(), "give all gateways and workers the same, by --key-file or %s", keyVar)
		return
	}
	if info, err := os.Stat(flags.KeyFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		x.add("signing key", checkWarning, fmt.Sprintf("others may read %s (%s)", flags.KeyFile, info.Mode().Perm()), "chmod 600 %s", flags.KeyFile)
		return
	}
	x.ok("signing key", "one that signs, %d retired", len(k.retired))
}

// payloadKeys also looks whether the keys open runs that Temporal has.
func (x *examination) payloadKeys(ctx context.Context) {
	k, err := x.payloadFlags.keys(ctx)
	if err != nil {
		x.add("payload keys", checkFailed, err.Error(), "write lines ID:KEY, the key of openssl rand -hex 32")
		return
	}
	lacking := map[string]runs.RunID{} // key → one of the runs that it has sealed
	for id, p := range x.inputs {
		if key := payloads.KeyOf(p); key != "" && (k == nil || !k.Has(key)) {
			lacking[key] = id
		}
	}
	switch {
	case len(lacking) > 0:
		key := slices.Sorted(maps.Keys(lacking))[0]
		x.add("payload keys", checkFailed, fmt.Sprintf("run %s is sealed with key %q, which is not among the keys", lacking[key], key),
			"give the processes, and this command, the key by --payload-key-file; as long as it is missing, such runs wait and cannot be read")
	case k == nil:
		x.add("payload keys", checkSkipped, "none: what runs hold is not sealed for Temporal", "where it is to be, see --payload-key-file")
	default:
		x.ok("payload keys", "what runs hold is sealed for Temporal; they open the %d runs that were looked at", len(x.inputs))
	}
}

func (x *examination) temporal(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	options, err := x.where()
	if err != nil {
		x.add("temporal", checkFailed, err.Error(), "say where it is with --address or TEMPORAL_ADDRESS, or start perdure dev")
		return
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	tc, err := client.DialContext(ctx, options)
	if err != nil {
		x.add("temporal", checkFailed, fmt.Sprintf("%s does not answer: %v", options.HostPort, err), "start it, or name another with --address; look at TLS and the API key")
		return
	}
	defer tc.Close()
	at, err := runs.Inspect(ctx, tc, options.Namespace)
	if err != nil {
		x.add("temporal", checkFailed, err.Error(), "look at what this program is permitted at %s", options.HostPort)
		return
	}
	x.ok("temporal", "%s, server %s, %s", options.HostPort, cmp.Or(at.Server, "of unknown version"), at.Latency.Round(time.Millisecond))
	x.namespace(options.Namespace, at)
	x.inputs = map[runs.RunID]*commonpb.Payload{}
	for id, p := range runs.Inputs(ctx, tc, options.Namespace, doctorRuns) {
		x.inputs[id] = p
	}
}

func (x *examination) namespace(name string, at *runs.Inspection) {
	if !at.Exists {
		x.add("namespace", checkFailed, "there is no namespace "+name, "start a gateway or worker, which registers it if it may, or: temporal operator namespace create --namespace %s", name)
		return
	}
	x.ok("namespace", "%s keeps closed runs for %s", name, at.Retention)
	if len(at.Missing) > 0 {
		x.add("search attributes", checkFailed, "missing: "+strings.Join(at.Missing, ", "),
			"start a gateway or worker, which adds them if it may, or: temporal operator search-attribute create --namespace %s --type Keyword --name %s", name, strings.Join(at.Missing, " --name "))
	} else {
		x.ok("search attributes", "all are there")
	}
	if at.Unchecked > 0 {
		x.add("signals", checkFailed, fmt.Sprintf("%d wait for a worker that has the key with which they were told something, such as an answer", at.Unchecked),
			"give the workers the keys of the gateways, by --key-file or %s; perdure runs list --waiting key lists the runs", keyVar)
	}
	if at.Pauses {
		x.ok("quarantine", "Temporal can pause runs that take their workers down")
	} else {
		x.add("quarantine", checkWarning, "Temporal cannot pause runs that take their workers down: workers refuse them, but lists say that they run",
			"set frontend.WorkflowPauseEnabled in the dynamic configuration of Temporal (1.31 or newer)")
	}
	if at.Workers == 0 {
		x.add("workers", checkWarning, "none has looked for work lately: runs do not go on", "start perdure worker or perdure serve")
		return
	}
	x.ok("workers", "%d looked for work within the last five minutes", at.Workers)
	if ahead := time.Until(at.Seen); ahead > 0 { // a moment ago by their clock
		x.clocks = append(x.clocks, remote{"Temporal", ahead})
	}
}

func (x *examination) database(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	needed := x.found != nil && len(x.found.delegating()) > 0
	switch {
	case x.Database == "" && needed:
		x.add("database", checkFailed, "none is given, and "+strings.Join(x.found.delegating(), ", ")+" take credentials of callers", "name a PostgreSQL with --database or PERDURE_DATABASE_URL")
		return
	case x.Database == "":
		x.add("database", checkSkipped, "none is given", "name it with --database, if there is one")
		return
	}
	before := time.Now()
	at, err := store.Inspect(ctx, x.Database)
	version, latest := at.Version, at.Latest
	took := time.Since(before)
	switch {
	case err != nil:
		x.add("database", checkFailed, err.Error(), "start it, or look at the URL, the password and the rights of its user")
		return
	case version < latest:
		x.add("database", checkFailed, fmt.Sprintf("its tables are of version %d, and %d is wanted", version, latest), "perdure migrate")
	case version > latest:
		x.add("database", checkWarning, fmt.Sprintf("its tables are of version %d, newer than this program (%d)", version, latest), "upgrade this program")
	default:
		x.ok("database", "tables of version %d", version)
	}
	x.clocks = append(x.clocks, remote{"the database", at.Now.Sub(before.Add(took / 2))})
	x.store = &at
}

// largeValues looks where they are kept, and whether the processes would find them.
func (x *examination) largeValues() {
	const name = "large values"
	_, err := os.Stat(valuesIn(x.Data.String()))
	ofDev := err == nil && x.Database == ""
	switch {
	case ofDev:
		x.ok(name, "kept in %s", valuesIn(x.Data.String()))
	case x.LargeValues && x.Database == "":
		x.add(name, checkFailed, "there is no database in which to keep them", "name a PostgreSQL with --database or PERDURE_DATABASE_URL")
	case x.LargeValues && x.store == nil:
		x.add(name, checkFailed, "the database in which they are kept does not answer", "see database")
	case x.LargeValues:
		x.ok(name, "%d kept in the database, %.1f MB", x.store.Values, float64(x.store.ValueBytes)/1e6)
	case x.store != nil && x.store.Values > 0:
		x.add(name, checkFailed, fmt.Sprintf("%d are kept in the database, which processes without --large-values do not read", x.store.Values),
			"start gateways and workers with --large-values or PERDURE_LARGE_VALUES=true, and this command as well")
	default:
		x.add(name, checkSkipped, "off: a value has 1.9 MB at most", "where there are larger ones, see --large-values")
	}
}

// backends connects to each backend, as the processes do.
func (x *examination) backends(ctx context.Context) {
	if x.found == nil || len(x.found.Backends) == 0 {
		x.add("backends", checkSkipped, "none are configured", "")
		return
	}
	byCaller := x.found.delegating()
	own := *x.found
	own.Backends = slices.DeleteFunc(slices.Clone(x.found.Backends), func(b backends.Config) bool { return slices.Contains(byCaller, b.Name) })
	for _, name := range byCaller {
		x.add("backend "+name, checkSkipped, "it is called with credentials of callers, which nobody has here", "call one of its tools")
	}
	if len(own.Backends) == 0 {
		return
	}
	if len(byCaller) > 0 {
		own.Aggregation = backends.Aggregation{} // which may name the others
	}
	own.Outgoing = maps.Clone(own.Outgoing)
	maps.DeleteFunc(own.Outgoing, func(name string, _ credentials.Strategy) bool { return slices.Contains(byCaller, name) })
	pool, _, err := newPool(serviceOptions{Loaded: &own, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		x.add("backends", checkFailed, err.Error(), "correct the configuration")
		return
	}
	defer pool.Close()
	began := time.Now()
	pool.Start(ctx)
	waiting, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	tried := func() bool {
		return !slices.ContainsFunc(pool.Status(), func(s backends.Status) bool { return !s.Tried })
	}
	for waiting.Err() == nil && !tried() && !pool.WaitReady(waiting, 20*time.Millisecond) {
	}
	for _, s := range pool.Status() {
		switch {
		case s.Up:
			x.ok("backend "+s.Name, "%s, MCP %s, connected in %s", plural(s.Tools, "tool"), s.ProtocolVersion, max(s.Since.Sub(began), 0).Round(time.Millisecond))
		case isProgram(own.Backends, s.Name):
			x.add("backend "+s.Name, checkFailed, cmp.Or(s.Error, "it does not answer within "+doctorPatience.String()),
				"look whether its program is there, in PATH and in the image; and at its command and variables in the configuration")
		default:
			x.add("backend "+s.Name, checkFailed, cmp.Or(s.Error, "it does not answer within "+doctorPatience.String()), "start it, or look at its address and credentials in the configuration")
		}
	}
	if len(byCaller) == 0 {
		x.tools(pool)
	}
}

// isProgram says whether a backend is a program that this one starts.
func isProgram(all []backends.Config, name string) bool {
	return slices.ContainsFunc(all, func(b backends.Config) bool { return b.Name == name && b.Command != "" })
}

// tools looks whether backends offer what definitions use, where all are there.
func (x *examination) tools(pool *backends.Pool) {
	if slices.ContainsFunc(pool.Status(), func(s backends.Status) bool { return !s.Up }) || len(x.found.Definitions) == 0 {
		return
	}
	var lacking []string
	for _, d := range x.found.Definitions {
		if _, err := gateway.Snapshot(d, gateway.StepTools(pool)); err != nil {
			lacking = append(lacking, err.Error())
		}
	}
	if len(lacking) > 0 {
		x.add("tools", checkFailed, lacking[0], "correct the definition, or the backend; %s cannot be called, and perdure tools lists what there is", plural(len(lacking), "composite tool"))
		return
	}
	x.ok("tools", "backends offer what the definitions use")
}

// How far clocks may be apart.
const (
	clockWarning = 5 * time.Second
	clockFailure = 25 * time.Second // tokens are taken with 30 s of difference
)

// clock compares the clock with those of others, also with the Date of servers
// that answer by HTTP.
func (x *examination) clock(ctx context.Context) {
	if x.found != nil {
		for _, b := range x.found.Backends {
			x.dateOf(ctx, "backend "+b.Name, b.URL)
		}
		if x.found.Auth.OIDC != nil {
			x.dateOf(ctx, "the issuer", x.found.Auth.OIDC.Issuer)
		}
	}
	if len(x.clocks) == 0 {
		x.add("clock", checkSkipped, "there is no other to compare it with", "")
		return
	}
	worst := slices.MaxFunc(x.clocks, func(a, b remote) int { return cmp.Compare(a.ahead.Abs(), b.ahead.Abs()) })
	found := fmt.Sprintf("%s from that of %s", worst.ahead.Abs().Round(time.Millisecond), worst.of)
	switch {
	case worst.ahead.Abs() >= clockFailure:
		x.add("clock", checkFailed, found, "synchronise the clocks (NTP)")
	case worst.ahead.Abs() >= clockWarning:
		x.add("clock", checkWarning, found, "synchronise the clocks (NTP)")
	default:
		x.ok("clock", "%s at most", found)
	}
}

func (x *examination) dateOf(ctx context.Context, of, url string) {
	if url == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return
	}
	before := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // its own check says so
	}
	_ = response.Body.Close()
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		ahead := date.Add(time.Second / 2).Sub(before.Add(time.Since(before) / 2)) // it has no fractions
		x.clocks = append(x.clocks, remote{of, ahead})
	}
}

func (x *examination) print(c *console) error {
	if x.Output == "json" {
		return c.printJSON(x.checks)
	}
	styles := map[string]style{checkOK: green, checkWarning: yellow, checkFailed: red, checkSkipped: faint}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, k := range x.checks {
		line := strings.Join(strings.Fields(k.Found), " ")
		if k.Fix != "" && k.Status != checkSkipped {
			line += "; to mend it: " + k.Fix
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.outStyle(styles[k.Status], k.Status), k.Name, line)
	}
	return w.Flush()
}
