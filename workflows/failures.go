package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows/record"
)

// Failures are why a run fails, or completes despite errors.
type failures struct {
	*origin
	journal *record.Journal

	root     workflow.Context    // of the workflow; done when the run is cancelled
	cancel   workflow.CancelFunc // stops all work under way
	first    *Error              // that ends the run; later ones are consequences
	reported []Error             // of steps that failed without ending the run at once
	undoing  bool                // what the run has done is being undone
}

// cancellable is the context of all that the run has under way until it fails.
func (fs *failures) cancellable(ctx workflow.Context) workflow.Context {
	ctx, fs.cancel = workflow.WithCancel(ctx)
	return ctx
}

// abort stops the run with an error; the first one counts.
func (fs *failures) abort(err *Error) {
	fs.fail(err)
	fs.cancel()
}

// fail has the run end with an error, if none has ended it before.
func (fs *failures) fail(err *Error) {
	if fs.first == nil {
		err.RunID = fs.id
		fs.first = err
	}
}

// report adds an error that does not stop the others.
func (fs *failures) report(err *Error) {
	err.RunID = fs.id
	fs.reported = append(fs.reported, *err)
}

// why is the error that ends the run; nil = it has not failed.
func (fs *failures) why() *Error { return fs.first }

// stopped reports whether the run is ending, so that nothing needs to be published
// before; compensations publish.
func (fs *failures) stopped() bool {
	return (fs.first != nil || fs.cancelled()) && !fs.undoing
}

// undoes notes that what the run has done is undone from now on.
func (fs *failures) undoes() { fs.undoing = true }

// cancelled reports whether the run was asked to cancel.
func (fs *failures) cancelled() bool { return fs.root.Err() != nil }

// settle finds out with what the run ends, when its steps have all settled. The errors of
// the execution before may have come in another order.
func (fs *failures) settle(unfinished string) {
	if fs.cancelled() {
		fs.fail(&Error{Code: codes.Cancelled, Category: codes.CategoryCancelled, Message: fs.in.Definition.Name + " was cancelled" + unfinished})
	}
	fs.reportedBefore()
	if fs.in.Continued {
		slices.SortStableFunc(fs.reported, func(a, b Error) int { return fs.journal.At(a.StepPath).Order - fs.journal.At(b.StepPath).Order })
	}
	if fs.first == nil && len(fs.reported) > 0 && fs.program.Definition.FailureMode == definitions.FailLate {
		fs.first = &fs.reported[0]
	}
}

// reportedBefore adds what scripts have reported in earlier executions and this one has
// not reached, in stopped branches.
func (fs *failures) reportedBefore() {
	for path, e := range fs.journal.Ahead() {
		if report, ok := e.Kind.(record.Report); ok {
			fs.journal.Note(path, report)
			fs.reported = append(fs.reported, report.Reported)
		}
	}
}

// survived are the errors despite which the run completes.
func (fs *failures) survived() []Error { return fs.reported }

// bytes are those that the errors take in the result.
func (fs *failures) bytes() (size int) {
	for _, e := range fs.reported {
		size += record.PayloadSize(e.Message) + record.EntryBytes
	}
	return size
}

// StatusOf is how a run ended that returned an error; nil = it completed.
func StatusOf(err error) Status {
	var app *temporal.ApplicationError
	var f Failure
	switch {
	case err == nil:
		return Completed
	case temporal.IsCanceledError(err):
		return Cancelled
	case errors.As(err, &app) && app.Type() == string(codes.CategoryTimeout) && app.Details(&f) == nil && f.Error.StepID == "":
		return TimedOut
	}
	return Failed
}

// failed is the error with which a run ends.
func failed(f *Failure) error {
	return temporal.NewApplicationErrorWithOptions(f.Error.Message, string(f.Error.Category),
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{*f}})
}
