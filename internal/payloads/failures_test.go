package payloads_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/perduretest"
)

// options are those of a client with these keys, "" = none, that reports what
// its workers could not read.
func options(t *testing.T, keys string) client.Options {
	t.Helper()
	var o client.Options
	if keys == "" {
		payloads.Seal(&o, nil)
	} else {
		payloads.Seal(&o, readKeys(t, keys))
	}
	payloads.ReportUnread(&o, func(activity string, reason error) error {
		return temporal.NewApplicationError(activity+": "+reason.Error(), "unread")
	})
	return o
}

var call = converter.ActivitySerializationContext{WorkflowID: "tool/1", ActivityType: "Call"}

// TestUnread shows how an activity fails whose input its worker cannot read, and
// that nothing else fails so.
func TestUnread(t *testing.T) {
	t.Parallel()
	sealed := perduretest.Must(dataConverter(readKeys(t, first), "tool/1").ToPayload("planted"))(t)
	for name, keys := range map[string]string{"no keys": "", "another key": second} {
		o := options(t, keys)
		var into string
		reason := o.DataConverter.FromPayload(sealed, &into)
		failures := converter.WithFailureConverterSerializationContext(o.FailureConverter, call)
		got := failures.ErrorToFailure(fmt.Errorf("decoding the input: %w", reason))
		var app *temporal.ApplicationError
		if err := failures.FailureToError(got); !errors.As(err, &app) || app.Type() != "unread" || !strings.Contains(app.Message(), `Call: `) || !strings.Contains(app.Message(), `"2026-10"`) {
			t.Errorf("%s: the activity fails with %v", name, err)
		}
		said := temporal.NewApplicationError("not called: "+reason.Error(), "tool", reason)
		if err := failures.FailureToError(failures.ErrorToFailure(said)); !errors.As(err, &app) || app.Type() != "tool" {
			t.Errorf("%s: what the activity has said is %v", name, err)
		}
		if err := failures.FailureToError(failures.ErrorToFailure(errors.New("broken"))); !errors.As(err, &app) || app.Type() == "unread" {
			t.Errorf("%s: what is broken is %v", name, err)
		}
	}

	o := options(t, first)
	payloads.Keep(&o, memory{})
	_, reason := o.ExternalStorage.Drivers[0].Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()},
		[]converter.StorageDriverClaim{{ClaimData: map[string]string{"id": "gone", "run": "tool/1"}}})
	var app *temporal.ApplicationError
	if err := o.FailureConverter.FailureToError(o.FailureConverter.ErrorToFailure(reason)); !errors.As(err, &app) || app.Type() != "unread" {
		t.Errorf("a large value that is gone: %v", err)
	}
}

// TestFailureWithoutKey shows that a workflow does not go on with the failure of
// an activity that it cannot read, as if it said nothing; and that others may.
func TestFailureWithoutKey(t *testing.T) {
	t.Parallel()
	has := converter.WithFailureConverterSerializationContext(options(t, first).FailureConverter, call)
	for name, said := range map[string]error{
		"details": temporal.NewApplicationError("words", "tool", "details"),
		"message": errors.New("words"),
		"below":   fmt.Errorf("above: %w", temporal.NewApplicationError("words", "tool", "details")),
	} {
		failure := has.ErrorToFailure(said)
		if strings.Contains(failure.String(), "words") {
			t.Errorf("%s: in clear: %s", name, failure)
		}
		for _, keys := range []string{"", second} {
			_ = options(t, keys).FailureConverter.FailureToError(failure) // of who looks at the run
			if !panics(func() {
				_ = converter.WithFailureConverterSerializationContext(options(t, keys).FailureConverter, call).FailureToError(failure)
			}) {
				t.Errorf("%s: read by a workflow with keys %q", name, keys)
			}
		}
		if err := has.FailureToError(failure); err == nil || !strings.Contains(err.Error(), "words") {
			t.Errorf("%s: with the key it says %v", name, err)
		}
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestAttackFailureIsReported shows that whoever keeps the histories reads no text of
// a failure that is read before it is sent, as those of local activities are, and of
// an error that was read from a failure and is reported again, alone or in another
// error; and that who has the key reads all of it.
func TestAttackFailureIsReported(t *testing.T) {
	t.Parallel()
	failures := converter.WithFailureConverterSerializationContext(options(t, first).FailureConverter, call)
	said := temporal.NewApplicationErrorWithCause("planted above", "tool", errors.New("planted below"), "details")
	sent := failures.ErrorToFailure(said)
	read := failures.FailureToError(sent)
	if text := sent.String(); strings.Contains(text, "planted") {
		t.Errorf("reading has opened it: %s", text)
	}
	for name, err := range map[string]error{"alone": read, "in another": fmt.Errorf("planted besides: %w", read)} {
		again := failures.ErrorToFailure(err)
		if text := again.String(); strings.Contains(text, "planted") {
			t.Errorf("%s: in clear: %s", name, text)
		}
		for got, want := failures.FailureToError(again), err; want != nil; got, want = errors.Unwrap(got), errors.Unwrap(want) {
			if got == nil || !strings.Contains(got.Error(), want.Error()) {
				t.Errorf("%s: read as %v, want %v", name, got, want)
			}
		}
	}
	if read.Error() == "" || !strings.Contains(read.Error(), "planted above") {
		t.Errorf("the error that was reported says %q now", read)
	}
}
