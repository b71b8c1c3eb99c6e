package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// What a service needs is unavailable when it was found so twice, and back likewise:
// one answer of the other kind changes nothing. Each change is in the log once.
func TestNeedGoesAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var down atomic.Bool
		n := &need{name: "Temporal", log: slog.New(slog.NewTextHandler(&log, nil)), probe: func(ctx context.Context) error {
			if !down.Load() {
				return nil
			}
			<-ctx.Done() // it hangs, as it does when a database is unavailable
			return errors.New("its disk is full")
		}}
		s := &Service{shared: &shared{opts: Options{Loaded: &config.Loaded{}, Logger: n.log}, needs: []*need{n}}}
		s.started.Store(true)
		answer := func(path string) int {
			w := httptest.NewRecorder()
			s.health().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			return w.Code
		}
		go n.watch(t.Context())
		for _, step := range []struct {
			down  bool
			after time.Duration
			ready int
		}{
			{false, time.Minute, 200},
			{true, needInterval, 200}, // found once
			{false, time.Minute, 200},
			{true, needInterval + 2*needLimit + needAgain, 503},
			{true, time.Hour, 503},
			{false, needInterval + needLimit + needAgain, 200},
			{false, time.Minute, 200},
		} {
			down.Store(step.down)
			time.Sleep(step.after + time.Millisecond)
			synctest.Wait()
			if got := answer("/readyz"); got != step.ready {
				t.Errorf("after %s with down = %t /readyz is %d", step.after, step.down, got)
			}
			if got := answer("/reachable"); got != 200 {
				t.Errorf("/reachable is %d", got)
			}
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 2 || !strings.Contains(got, "Temporal is away") || !strings.Contains(got, "its disk is full") || !strings.Contains(got, "Temporal is back") {
			t.Errorf("the log has %s", got)
		}
		s.stopping.Store(true)
		if got := answer("/reachable"); got != 503 {
			t.Errorf("while it stops /reachable is %d", got)
		}
	})
}

// A Temporal each of whose requests takes two seconds is slow, and not away: nobody would
// take calls if it counted as that.
func TestSlowNeedIsMet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &need{name: "Temporal", log: slog.New(slog.DiscardHandler), probe: func(ctx context.Context) error {
			const requests = 3 // a new connection, a write, and the read of it
			for range requests {
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}}
		go n.watch(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := n.away(); err != nil {
			t.Errorf("it is away: %v", err)
		}
	})
}

// TestIssuerIsNeeded: a gateway whose callers have tokens of an issuer needs it. It takes
// calls with the keys of before, and none without.
func TestIssuerIsNeeded(t *testing.T) {
	t.Parallel()
	issuer := perduretest.NewIssuer(t)
	issuer.Down.Store(true)
	configured := &config.OIDC{OIDCOptions: auth.OIDCOptions{Issuer: issuer.URL, Audience: "https://tools.example.com/mcp"}}
	callers := perduretest.Must(Callers(config.Auth{OIDC: configured}, "", slog.New(slog.DiscardHandler)))(t)
	s := &Service{shared: &shared{callers: callers, opts: Options{Loaded: &config.Loaded{}, Logger: slog.New(slog.DiscardHandler)}}}
	if got := s.newNeeds(); len(got) != 1 {
		t.Errorf("a worker has %d needs", len(got))
	}
	s.front = &front{shared: s.shared}
	s.needs = s.newNeeds()
	s.started.Store(true)
	need := s.needs[len(s.needs)-1]
	need.turn(need.look(t.Context()))
	if got := s.unready(); !slices.Equal(got, []string{"the issuer is away; run perdure doctor"}) {
		t.Errorf("without keys it is not ready for %q", got)
	}
	issuer.Down.Store(false)
	x := &examination{found: &config.Loaded{Settings: config.Settings{Auth: config.Auth{OIDC: configured}}}}
	x.issuer(t.Context())
	issuer.Down.Store(true)
	x.issuer(t.Context())
	if x.checks[0].Status != CheckOK || x.checks[1].Status != CheckFailed || !strings.Contains(x.checks[1].Found, "503") {
		t.Errorf("doctor finds %+v", x.checks)
	}
	need.spare = func() bool { return true }
	if got := s.unready(); got != nil || need.away() == nil {
		t.Errorf("with the keys of before it is not ready for %q", got)
	}
}

// A clock that differs from Temporal's is logged once, and once that it does not any more.
func TestClockDiffers(t *testing.T) {
	t.Parallel()
	began := time.Now()
	if ahead := aheadOf(began.Add(-3*time.Minute), began, began.Add(2*time.Second)); ahead != 3*time.Minute+time.Second {
		t.Errorf("ahead by %s", ahead)
	}
	var log bytes.Buffer
	c := &clock{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, ahead := range []time.Duration{time.Second, 3 * time.Minute, 2 * time.Minute, 0, -clockWarning} {
		c.note(ahead)
		if got := c.ahead.Load(); *got != ahead {
			t.Errorf("got %s, want %s", *got, ahead)
		}
	}
	if got := log.String(); strings.Count(got, "level=WARN") != 3 || strings.Count(got, "differs from that of Temporal") != 2 || !strings.Contains(got, "ahead=3m0s") || !strings.Contains(got, "ahead=-5s") {
		t.Errorf("the log has %s", got)
	}
}

// Replicas go by Temporal's clock when they look for the run of a call that is sent again,
// whatever their own ones show.
func TestClockOfAReplica(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{13 * time.Hour, -13 * time.Hour} {
		c := &clock{log: slog.New(slog.DiscardHandler)}
		began := time.Now()
		if at := c.now(); at.Sub(began).Abs() > time.Minute {
			t.Errorf("before it is known, it is %s, and here %s", at, began)
		}
		c.note(ahead)
		if at := c.now().Round(0); at.Add(ahead).Sub(began.Round(0)).Abs() > time.Minute {
			t.Errorf("ahead by %s: it is %s, and here %s", ahead, at, began)
		}
	}
}

// An activity has the time that it has by Temporal's clock also where the clock of its
// worker is ahead.
func TestActivityOfAWorkerAhead(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]time.Duration{10 * time.Minute: 15 * time.Minute, time.Second: 5 * time.Minute, -10 * time.Minute: 5 * time.Minute} {
		c := &clock{log: slog.New(slog.DiscardHandler)}
		c.note(ahead)
		task := &workflowservice.PollActivityTaskQueueResponse{ScheduleToCloseTimeout: durationpb.New(5 * time.Minute)}
		c.prolong(task)
		if got := task.ScheduleToCloseTimeout.AsDuration(); got != want {
			t.Errorf("ahead by %s: the activity has %s, want %s", ahead, got, want)
		}
		unlimited := &workflowservice.PollActivityTaskQueueResponse{}
		if c.prolong(unlimited); unlimited.ScheduleToCloseTimeout.AsDuration() != 0 {
			t.Errorf("an activity without a limit has one: %v", unlimited)
		}
	}
}

// What waits for workers, and when they have looked for work last, is told.
func TestExamineWorkers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tc := range []struct {
		name   string
		at     runs.Inspection
		status CheckStatus
		found  string
	}{
		{"none", runs.Inspection{Tasks: runs.Backlog{Tasks: 3, Age: time.Hour}}, CheckWarning, "3 tasks and 0 calls wait for them, the oldest for 1h0m0s"},
		{"one that is gone", runs.Inspection{Workers: 1, Seen: now.Add(-3 * time.Minute)}, CheckWarning, "for 3m0s"},
		{"all were killed", runs.Inspection{Workers: 2, Seen: now.Add(-30 * time.Second), Tasks: runs.Backlog{Tasks: 4, Age: 21 * time.Second}}, CheckWarning, "no worker has polled for 30s"},
		{"too few", runs.Inspection{Workers: 1, Seen: now, Calls: runs.Backlog{Tasks: 9, Age: 2 * time.Minute}}, CheckWarning, "9 calls wait"},
		{"enough", runs.Inspection{Workers: 2, Seen: now.Add(-20 * time.Second)}, CheckOK, "the last 20s ago"},
	} {
		x := &examination{}
		x.workers(&tc.at, now)
		if got := x.checks[0]; got.Status != tc.status || !strings.Contains(got.Found, tc.found) || (got.Fix == "") != (tc.status == CheckOK) {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}
