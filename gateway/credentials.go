package gateway

import (
	"context"
	"log/slog"
	"slices"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

// Credentials is what the gateway wants of the credentials of backends;
// *credentials.Broker has it.
type Credentials interface {
	// OfCallers reports whether a backend wants the credentials of callers.
	OfCallers(backend string) bool
	// Deposit leaves what runs of a caller need at backends: at those that are
	// named, and at those for which runs of the caller wait. It gives the ones
	// of both that can be called now, and those of them for which runs waited.
	Deposit(ctx context.Context, who backends.Caller, needed []string) (good, given []string)
	// KeepForwarded keeps what a request has for backends, until the run that it starts
	// has ended or drop is called, and gives the name of that.
	KeepForwarded(ctx context.Context, caller, run string, what backends.Forwarded) (as string, drop func(), err error)
}

// maxSignalled bounds the runs that are signalled about a credential. The others find it by
// themselves.
const maxSignalled = 1000

// Deposits bring runs the credentials that come with their callers' requests.
type deposits struct {
	credentials Credentials // nil = no backend wants those of callers
	runs        Runs
	log         *slog.Logger
}

// wanted reports whether any backend wants the credentials of callers.
func (d *deposits) wanted() bool { return d.credentials != nil }

// deposit makes of a request's token what runs of its sender need, which may outlive the
// request, and has those that wait for it continue. It gives the backends that can be
// called now, of those that are needed.
func (d *deposits) deposit(ctx context.Context, who auth.Identity, needed ...string) (good []string) {
	if d.credentials == nil || who.Token == "" {
		return nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	good, given := d.credentials.Deposit(ctx, behalf(who), needed)
	if len(given) > 0 {
		go d.resumeRuns(who.Caller(), given)
	}
	return good
}

// keeper keeps what a request has for backends for the run that it starts.
func (d *deposits) keeper(caller string, what backends.Forwarded) func(context.Context, runs.RunID) (string, func(), error) {
	return func(ctx context.Context, id runs.RunID) (string, func(), error) {
		return d.credentials.KeepForwarded(ctx, caller, string(id), what)
	}
}

// resumeRuns has the runs of a caller continue that wait for credentials of backends.
func (d *deposits) resumeRuns(caller string, given []string) {
	ctx, cancel := detached(context.Background())
	defer cancel()
	waiting, err := d.runs.List(ctx, runs.Filter{Caller: caller, Waiting: true, Limit: maxSignalled})
	if err != nil {
		d.log.Warn("cannot find runs that wait for credentials; they check from time to time", "error", err)
		return
	}
	for _, run := range waiting {
		for _, e := range run.Open() {
			if run.Caller == caller && e.Kind == runs.Credentials && slices.Contains(given, e.Backend) {
				d.signalRun(ctx, caller, run.ID, e.ID)
			}
		}
	}
}

func (d *deposits) signalRun(ctx context.Context, caller string, run runs.RunID, elicitation string) {
	_, err := d.runs.Answer(ctx, run, runs.Answer{ElicitationID: elicitation, Action: accept, By: caller, Via: runs.ViaRequest})
	if err != nil { // most likely it continued by itself
		d.log.Debug("cannot signal credentials to a run", "run", run, "elicitation", elicitation, "error", err)
	}
}

// bringCredentials tries, once for each backend, whether the token of the
// request gives a run of its sender what it waits for.
func (s *asker) bringCredentials(e runs.Elicitation) {
	own := s.at.Owner == "" || s.at.Owner == s.x.caller.Subject
	if e.Kind != runs.Credentials || !own || s.tried[e.Backend] || !s.on.deposits.wanted() {
		return
	}
	if s.tried == nil {
		s.tried = map[string]bool{}
	}
	s.tried[e.Backend] = true
	go func(d *deposits, who auth.Identity, run runs.RunID) {
		ctx, cancel := detached(context.Background())
		defer cancel()
		if slices.Contains(d.deposit(ctx, who, e.Backend), e.Backend) {
			d.signalRun(ctx, who.Caller(), run, e.ID)
		}
	}(s.on.deposits, s.x.who, s.at.Run)
}

// waitsFor reports what a run waits for, to those who follow it.
func waitsFor(e runs.Elicitation) string {
	if e.Kind == runs.Credentials {
		return "needs credentials: " + view.Text(e.Message)
	}
	return "waiting for an answer: " + view.Text(e.Message)
}
