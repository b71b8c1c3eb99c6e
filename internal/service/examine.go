package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/store"
)

// A CheckStatus is the result of a check.
type CheckStatus string

// The statuses of checks.
const (
	CheckOK      CheckStatus = "ok"
	CheckWarning CheckStatus = "warning" // it works, but may stop working
	CheckFailed  CheckStatus = "failed"
	CheckSkipped CheckStatus = "skipped" // not needed here, or it cannot be checked
)

// A Check is the result for one part of an installation.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	Found  string      `json:"found"`
	Fix    string      `json:"fix,omitempty"` // what to do; "" = nothing
}

const (
	examinedRuns = 100              // open runs that are read, and as many closed ones
	patience     = 10 * time.Second // with each server that may not answer
)

// An Installation is what Examine checks. Its functions read what flags and variables
// name.
type Installation struct {
	Config      config.Sources                                // its file and directories; none = they are not checked
	SigningKeys func() (k *Keys, file string, err error)      // nil = none is given; file = "" if they come from a variable
	PayloadKeys func(context.Context) (*payloads.Keys, error) // nil = nothing is sealed
	Temporal    func() (client.Options, error)
	Database    string   // URL of the PostgreSQL; "" = none
	LargeValues bool     // whether large values are kept outside of Temporal
	Data        string   // directory of a dev
	ValuesDir   string   // of a dev
	Offered     []string // names of composite tools that a server offers; nil = none was asked

	// Starting gets, now and then, the backends that still start, and for how long.
	// nil = nothing is.
	Starting func(names []string, since time.Duration)
}

// Examine checks all parts of an installation from this machine. It changes nothing,
// except for what it writes to test writing.
func Examine(ctx context.Context, i Installation) []Check {
	x := &examination{Installation: i}
	x.configuration()
	x.signingKeys()
	x.temporal(ctx)
	x.payloadKeys(ctx)
	x.database(ctx)
	x.largeValues()
	x.issuer(ctx)
	x.backends(ctx)
	x.clock(ctx)
	return x.checks
}

// An examination collects results.
type examination struct {
	Installation
	checks []Check
	found  *config.Loaded // nil = no valid configuration
	clocks []remote       // of others

	inputs map[runs.RunID]*commonpb.Payload // of some runs, as in Temporal
	store  *store.Inspection                // nil = no database answers
}

// A remote clock, and how far it is ahead of ours.
type remote struct {
	of    string
	ahead time.Duration
}

func (x *examination) add(name string, status CheckStatus, found, fix string, args ...any) {
	x.checks = append(x.checks, Check{name, status, found, fmt.Sprintf(fix, args...)})
}

func (x *examination) ok(name, found string, args ...any) {
	x.add(name, CheckOK, fmt.Sprintf(found, args...), "")
}

func (x *examination) configuration() {
	if x.Config.Config == "" && len(x.Config.Definitions) == 0 {
		x.add("configuration", CheckSkipped, "not given", "set --config")
		return
	}
	found, diags := config.Load(x.Config)
	if !diags.HasErrors() {
		x.found = found
		files := slices.DeleteFunc(append([]string{x.Config.Config}, x.Config.Definitions...), func(name string) bool { return name == "" })
		x.ok("configuration", "%s: %s, %s", strings.Join(files, ", "), Plural(len(found.Backends), "backend"), Plural(len(found.Definitions), "definition"))
		return
	}
	mistakes := slices.DeleteFunc(slices.Clone(diags), func(d definitions.Diagnostic) bool { return d.Severity != definitions.SeverityError })
	x.add("configuration", CheckFailed, mistakes[0].String(), "correct it; perdure validate lists %s", Plural(len(mistakes), "mistake"))
}

func (x *examination) signingKeys() {
	k, file, err := x.SigningKeys()
	switch {
	case err != nil:
		x.add("signing key", CheckFailed, err.Error(), "%s", keyFileFix(err, "set --key-file or PERDURE_KEY to the same key, such as from openssl rand -hex 32, for all gateways and workers"))
		return
	case k == nil:
		x.add("signing key", CheckSkipped, "not given", "set --key-file")
		return
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		x.add("signing key", CheckWarning, fmt.Sprintf("other users can read %s (%s)", file, info.Mode().Perm()), "chmod 600 %s", file)
		return
	}
	x.ok("signing key", "%s signs, %d are retired", k.Proofs.ID(), len(k.Retired))
}

// keyFileFix is what to do about keys that cannot be read, or that are invalid.
func keyFileFix(err error, invalid string) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "let the user of each process, and of this command, read the file: chown it, chmod 600"
	case errors.Is(err, fs.ErrNotExist):
		return "correct the name of the file, or bring the file back from a copy; other keys do not replace lost ones"
	}
	return invalid
}

// payloadKeys also checks whether the keys open runs in Temporal.
func (x *examination) payloadKeys(ctx context.Context) {
	k, err := x.PayloadKeys(ctx)
	if err != nil {
		x.add("payload keys", CheckFailed, err.Error(), "%s", keyFileFix(err, "write lines ID:KEY, each KEY from openssl rand -hex 32"))
		return
	}
	lacking := map[string][]runs.RunID{} // key → the runs that it has sealed
	for id, p := range x.inputs {
		if key := payloads.KeyOf(p); key != "" && (k == nil || !k.Has(key)) {
			lacking[key] = append(lacking[key], id)
		}
	}
	switch {
	case len(lacking) > 0:
		key := slices.Sorted(maps.Keys(lacking))[0]
		x.add("payload keys", CheckFailed, fmt.Sprintf("%d of the %s checked are sealed with the unknown key %q, such as %s", len(lacking[key]), Plural(len(x.inputs), "run"), key, slices.Min(lacking[key])),
			"add the key to --payload-key-file of all processes and of this command; until then, such runs wait and cannot be read. If it is lost, perdure runs terminate ends a run")
	case k == nil:
		x.add("payload keys", CheckSkipped, "not given; values of runs are not sealed for Temporal", "to seal them, set --payload-key-file")
	default:
		x.ok("payload keys", "values of runs are sealed for Temporal; the keys open the %d runs checked", len(x.inputs))
	}
}

func (x *examination) temporal(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	options, err := x.Temporal()
	if err != nil {
		x.add("temporal", CheckFailed, err.Error(), "set --address or TEMPORAL_ADDRESS, or start perdure dev")
		return
	}
	x.certificate(options.ConnectionOptions.TLS, time.Now())
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	tc, err := client.DialContext(ctx, options)
	if err != nil {
		x.add("temporal", CheckFailed, fmt.Sprintf("%s does not answer: %v", options.HostPort, err), "%s", cmp.Or(runs.Fix(err), "start it, or set --address"))
		return
	}
	defer tc.Close()
	const revive = "bring Temporal, or the database behind it, back: is it up, can Temporal reach it, is its disk full? Runs wait and resume by themselves"
	if err := x.writes(ctx, tc, options.Namespace); errors.Is(err, runs.ErrUnavailable) {
		x.add("temporal", CheckFailed, options.HostPort+": "+err.Error(), "%s", cmp.Or(runs.Fix(err), revive))
		return
	}
	at, err := runs.Inspect(ctx, tc, options.Namespace)
	switch {
	case errors.Is(err, runs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		x.add("temporal", CheckFailed, options.HostPort+": "+err.Error(), revive)
		return
	case err != nil:
		x.add("temporal", CheckFailed, err.Error(), "check the permissions of this program at %s", options.HostPort)
		return
	}
	x.ok("temporal", "%s, server %s, %s; it writes and reads", options.HostPort, cmp.Or(at.Server, "of unknown version"), at.Latency.Round(time.Millisecond))
	x.namespace(options.Namespace, at)
	x.memory(ctx, tc, options.Namespace)
	x.inputs = map[runs.RunID]*commonpb.Payload{}
	for id, p := range runs.Inputs(ctx, tc, options.Namespace, examinedRuns) {
		x.inputs[id] = p
	}
}

// memory examines whether Temporal remembers what its database lacks.
func (x *examination) memory(ctx context.Context, tc client.Client, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	if run := runs.Lost(ctx, tc, namespace, examinedRuns); run != "" {
		x.add("temporal's memory", CheckFailed, "Temporal remembers more of "+string(run)+" than its database has: the database went back, such as by a failover to a standby that lagged, and so will runs", lostFix)
	}
}

// minRetention is for how long at least gateways take it that runs are kept after their end.
const minRetention = 24 * time.Hour

func (x *examination) namespace(name string, at *runs.Inspection) {
	if !at.Exists {
		x.add("namespace", CheckFailed, "namespace "+name+" not found", "check --namespace and TEMPORAL_NAMESPACE; to create it, start a gateway or worker with --create-namespace, or run temporal operator namespace create --namespace %s --retention 720h", name)
		return
	}
	if at.Retention > 0 && at.Retention < minRetention {
		x.add("namespace", CheckWarning, fmt.Sprintf("%s keeps closed runs for %s only: a call that is sent again later starts another run", name, at.Retention),
			"temporal operator namespace update --namespace %s --retention 720h", name)
	} else {
		x.ok("namespace", "%s keeps closed runs for %s", name, at.Retention)
	}
	if len(at.Missing) > 0 {
		x.add("search attributes", CheckFailed, "missing: "+strings.Join(at.Missing, ", "),
			"start a gateway or worker, which creates them if its credentials allow it, or run temporal operator search-attribute create --namespace %s --type Keyword --name %s", name, strings.Join(at.Missing, " --name "))
	} else {
		x.ok("search attributes", "all exist")
	}
	if at.Index != nil {
		x.add("index", CheckFailed, at.Index.Error(), "bring Temporal's visibility database back; until then there are no lists, approvals pages and metrics of runs, and doctor may not find all held runs; calls and runs continue")
		return
	}
	x.ok("index", "Temporal finds runs")
	if at.Unchecked > 0 {
		x.add("signals", CheckFailed, Plural(int(at.Unchecked), "signal")+" to runs, such as an answer, is signed with a key that a worker lacks",
			"perdure runs list --waiting key lists the runs, perdure runs show ID names the key; give the same keys (--key-file, PERDURE_KEY) to all gateways and workers: each logs the IDs of its keys at its start")
	}
	x.quarantine(at)
	x.workers(at, time.Now())
	x.builds(at)
}

// quarantine examines how runs are kept from workers that they take down, and calls from
// workers that stop.
func (x *examination) quarantine(at *runs.Inspection) {
	switch {
	case at.Quarantined > 0:
		x.add("quarantine", CheckFailed, Plural(int(at.Quarantined), "run")+" took workers down and will not be executed",
			"perdure runs list --status quarantined lists them, perdure runs show ID says how; then perdure runs release ID or perdure runs fail ID")
	case at.Pauses:
		x.ok("quarantine", "Temporal can pause runs that take their workers down; none is paused")
	default:
		x.add("quarantine", CheckWarning, "Temporal cannot pause runs that take their workers down; workers refuse them, but lists show them as running",
			"set frontend.WorkflowPauseEnabled in the dynamic configuration of Temporal (1.31 or newer)")
	}
	if at.TakesBack {
		x.ok("workers that stop", "Temporal hands no call to them")
	} else {
		x.add("workers that stop", CheckWarning, "Temporal may hand a call to a worker that stops; its outcome is unknown then, although it was not sent",
			"set frontend.enableCancelWorkerPollsOnShutdown in the dynamic configuration of Temporal (1.32 or newer)")
	}
}

// A live worker polls at least once a minute, and takes waiting tasks within seconds.
const (
	pollerAge = 2 * time.Minute
	queueAge  = time.Minute
	idleAge   = 10 * time.Second // an idle worker takes a task up at once
)

// workers checks when workers polled last, and how long tasks wait.
func (x *examination) workers(at *runs.Inspection, now time.Time) {
	const name = "workers"
	waits := max(at.Tasks.Age, at.Calls.Age)
	lag := fmt.Sprintf("%s and %s wait for them, the oldest for %s",
		Plural(int(at.Tasks.Tasks), "task"), Plural(int(at.Calls.Tasks), "call"), waits.Round(time.Second))
	age := now.Sub(at.Seen).Round(time.Second)
	switch {
	case at.Workers == 0:
		x.add(name, CheckWarning, "no worker has polled lately, so runs do not continue; "+lag, "start perdure worker or perdure serve")
	case age > pollerAge:
		x.add(name, CheckWarning, fmt.Sprintf("no worker has polled for %s, so runs do not continue; %s", age, lag), "start perdure worker or perdure serve, or find out why it hangs")
	case waits > idleAge && age >= waits:
		x.add(name, CheckWarning, fmt.Sprintf("no worker has polled for %s, since before tasks wait; %s", age, lag), "start perdure worker or perdure serve, or find out why it hangs")
	case waits > queueAge:
		x.add(name, CheckWarning, fmt.Sprintf("%d polled, the last %s ago; %s", at.Workers, max(age, 0), lag),
			"start more workers, give them more processors, or, where runs are pinned to builds, look at perdure rollout status")
	default:
		x.ok(name, "%d polled within five minutes, the last %s ago; %s", at.Workers, max(age, 0), lag)
	}
}

// writes probes whether Temporal can write, and by which clock.
func (x *examination) writes(ctx context.Context, tc client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	began := time.Now()
	at, err := runs.Probe(ctx, tc, namespace)
	if err == nil && !at.IsZero() {
		x.clocks = append(x.clocks, remote{"Temporal", -aheadOf(at, began, time.Now())})
	}
	return err
}

func (x *examination) database(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	needed := x.found != nil && len(x.found.KeepsForCallers()) > 0
	switch {
	case x.Database == "" && needed:
		x.add("database", CheckFailed, "not given, and "+strings.Join(x.found.KeepsForCallers(), ", ")+" need it to keep credentials or headers of callers", "set --database or PERDURE_DATABASE_URL to a PostgreSQL database")
		return
	case x.Database == "":
		x.add("database", CheckSkipped, "not given", "set --database, if there is one")
		return
	}
	before := time.Now()
	at, err := store.Inspect(ctx, x.Database)
	now := time.Now()
	if err == nil && at.Version == at.Latest {
		err = store.WriteAndRead(ctx, x.Database)
	}
	version, latest := at.Version, at.Latest
	switch {
	case err != nil:
		x.add("database", CheckFailed, err.Error(), "%s", store.Fix(err))
		return
	case version < latest:
		x.add("database", CheckFailed, fmt.Sprintf("its tables have version %d; %d is required", version, latest), "run perdure migrate")
	case version > latest:
		x.add("database", CheckWarning, fmt.Sprintf("its tables have version %d, newer than this program (%d)", version, latest), "upgrade this program")
	default:
		x.ok("database", "tables of version %d; it writes and reads", version)
	}
	x.clocks = append(x.clocks, remote{"the database", -aheadOf(at.Now, before, now)})
	x.store = &at
}

// largeValues checks where large values are kept, and whether all processes find them.
func (x *examination) largeValues() {
	const name = "large values"
	_, err := os.Stat(x.ValuesDir)
	ofDev := err == nil && x.Database == ""
	switch {
	case ofDev:
		x.ok(name, "kept in %s", x.ValuesDir)
	case x.LargeValues && x.Database == "":
		x.add(name, CheckFailed, "no database to keep them in", "set --database or PERDURE_DATABASE_URL to a PostgreSQL database")
	case x.LargeValues && x.store == nil:
		x.add(name, CheckFailed, "the database does not answer", "see database")
	case x.LargeValues:
		x.ok(name, "%d kept in the database, %.1f MB", x.store.Values, float64(x.store.ValueBytes)/1e6)
	case x.store != nil && x.store.Values > 0:
		x.add(name, CheckFailed, fmt.Sprintf("the database holds %d large values, which processes without --large-values do not read", x.store.Values),
			"set --large-values or PERDURE_LARGE_VALUES=true for gateways, workers and this command")
	default:
		x.add(name, CheckSkipped, "off; a value may have up to 1.9 MB", "for larger values, set --large-values")
	}
}

// Plural writes a number and what it counts, such as 1 tool or 2 tools.
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
