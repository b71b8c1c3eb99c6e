package runs_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/runs/history"
	"github.com/perdure/perdure/workflows"
)

// A lacking converter lacks what a result is read with for so many reads.
type lacking struct {
	converter.DataConverter
	reads *atomic.Int64
}

func (l lacking) FromPayloads(p *commonpb.Payloads, into ...any) error {
	if _, ok := into[0].(*workflows.RunResult); ok && l.reads.Add(-1) >= 0 {
		return errors.Join(errors.New("reading"), payloads.ErrNoKey)
	}
	return l.DataConverter.FromPayloads(p, into...)
}

// TestOutcomeThatCannotBeRead: a run that has completed is never reported as failed because
// its result cannot be read here: a key or the database of large values may be missing. It
// is waited for, and then an error.
func TestOutcomeThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c, temporal := compose(t)
	id := start(t, c, composition(t, `
name: NAME
description: d
steps: [{id: s, tool: write, arguments: {text: here}}]
`))
	followTo(t, c, id, 0, runs.EventDone)
	for name, read := range map[string]func(*runs.Client) (*runs.Outcome, error){
		"Result": func(c *runs.Client) (*runs.Outcome, error) { return c.Result(t.Context(), id) },
		"Follow": func(c *runs.Client) (o *runs.Outcome, err error) {
			var e runs.Event
			for e, err = range c.Follow(t.Context(), id, 0, runs.AllEvents) {
				o = e.Outcome
			}
			return o, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := &atomic.Int64{}
			c := runs.New(runs.Config{Client: temporal, Keys: testKeys, DataConverter: lacking{converter.GetDefaultDataConverter(), reads}})
			reads.Store(3)
			if o, err := read(c); err != nil || o.Status != workflows.Completed || o.Unread != nil || !strings.Contains(string(o.Output), "here") {
				t.Errorf("after it could be read again: %+v, %v", o, err)
			}
			reads.Store(1 << 40)
			if o, err := read(c); !errors.Is(err, runs.ErrUnread) {
				t.Errorf("while it cannot be read: %+v, %v", o, err)
			}
		})
	}
	reads := &atomic.Int64{}
	reads.Store(1 << 40)
	c = runs.New(runs.Config{Client: temporal, Keys: testKeys, DataConverter: lacking{converter.GetDefaultDataConverter(), reads}})
	if d, err := c.Show(t.Context(), id); err != nil || d.Status != workflows.Completed || d.Outcome.Unread == nil {
		t.Errorf("shown as %+v, %v", d, err)
	}
}

// TestFailureThatCannotBeRead: who lacks the key with which a failure was sealed is told so,
// and not that it is an "Encoded failure".
func TestFailureThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var seals, lacks client.Options
	keys, err := payloads.ReadKeys(t.Context(), func(context.Context) ([]byte, error) { return []byte("first:" + strings.Repeat("0a", 32)), nil })
	if err != nil {
		t.Fatal(err)
	}
	payloads.Seal(&seals, keys)
	payloads.Seal(&lacks, nil)
	sealed := seals.FailureConverter.ErrorToFailure(errors.New("be_write is full"))
	if said := history.NewFailure(lacks.DataConverter, proto.CloneOf(sealed)).Message(); !strings.Contains(said, `key "first"`) {
		t.Errorf("without the key it says %q", said)
	}
	if said := history.NewFailure(seals.DataConverter, sealed).Message(); said != "be_write is full" {
		t.Errorf("with the key it says %q", said)
	}
}
