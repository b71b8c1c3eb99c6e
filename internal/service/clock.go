package service

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The tolerated differences of clocks.
const (
	clockWarning = 5 * time.Second
	clockFailure = 25 * time.Second // tokens tolerate 30 s
)

// aheadOf is how far the clock here is ahead of one that showed a time between began and
// now. It is within half the time since then.
func aheadOf(at, began, now time.Time) time.Duration {
	return began.Add(now.Sub(began) / 2).Sub(at)
}

// A clock is how far the clock of the process is ahead of Temporal's.
type clock struct {
	log   *slog.Logger
	ahead atomic.Pointer[time.Duration] // nil = not known
	wrong bool                          // as logged last
}

// note takes over a comparison of one goroutine, and logs when the difference becomes
// large, and when it is small again.
func (c *clock) note(ahead time.Duration) {
	c.ahead.Store(&ahead)
	wrong := ahead.Abs() >= clockWarning
	if wrong == c.wrong {
		return
	}
	c.wrong = wrong
	message := "the clock agrees with that of Temporal again"
	if wrong {
		message = "the clock of this process differs from that of Temporal; synchronise the clocks (NTP)"
	}
	c.log.Warn(message, "ahead", ahead.Round(time.Millisecond).String())
}

// now is the time by Temporal's clock, which all processes share; until that is known, by
// the clock here.
func (c *clock) now() time.Time {
	if c != nil {
		if ahead := c.ahead.Load(); ahead != nil {
			return time.Now().Add(-*ahead)
		}
	}
	return time.Now()
}

// newClock makes the clock of a new worker, and has it on the worker's connection.
func newClock(o *client.Options, log *slog.Logger) *clock {
	c := &clock{log: log}
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			switch reply := reply.(type) {
			case *workflowservice.PollActivityTaskQueueResponse:
				c.prolong(reply)
			case *workflowservice.RespondWorkflowTaskCompletedResponse:
				for _, task := range reply.ActivityTasks {
					c.prolong(task)
				}
			}
			return nil
		}))
	return c
}

// prolong gives an activity the time that it has by Temporal's clock. The SDK adds the
// timeout to the time of scheduling, and compares the sum with the clock of the process:
// where that is far ahead, the activity would be over before it begins.
func (c *clock) prolong(task *workflowservice.PollActivityTaskQueueResponse) {
	ahead := c.ahead.Load()
	if limit := task.GetScheduleToCloseTimeout().AsDuration(); limit > 0 && ahead != nil && *ahead >= clockWarning {
		task.ScheduleToCloseTimeout = durationpb.New(limit + *ahead)
	}
}

// probeTemporal probes Temporal, and compares the clocks.
func (s *Service) probeTemporal(ctx context.Context) error {
	began := time.Now()
	at, err := s.runs.Probe(ctx)
	if took := time.Since(began); err == nil && !at.IsZero() && took < clockWarning/2 {
		s.opts.clock.note(aheadOf(at, began, time.Now()))
	}
	if err == nil {
		s.noteLost(ctx)
	}
	return err
}
