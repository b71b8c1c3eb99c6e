package history

import (
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/workflows"
)

// A Failure says why an attempt of a call failed, or all of it. The zero Failure
// is that of what has not failed.
type Failure struct {
	codec   codec
	failure *failurepb.Failure
}

// NewFailure reads a failure of Temporal's; nil = there is none.
func NewFailure(c converter.DataConverter, f *failurepb.Failure) Failure {
	return Failure{codec{c}, f}
}

// None reports whether nothing has failed.
func (f Failure) None() bool { return f.failure == nil }

// Message says to people why; "" = nothing has failed.
func (f Failure) Message() string {
	e := f.Reported()
	said, timedOut := timeouts[f.failure.GetTimeoutFailureInfo().GetTimeoutType()]
	switch {
	case f.None():
		return ""
	case timedOut && e.Message != "":
		return said + "; the attempt before failed: " + e.Message
	case timedOut:
		return said
	case e.Message != "":
		return e.Message
	}
	return message(f.codec, f.failure)
}

// timeouts say what Temporal says in words of its retries, also of calls that are
// never made again.
var timeouts = map[enumspb.TimeoutType]string{
	enumspb.TIMEOUT_TYPE_HEARTBEAT:         "the worker that made the call ended, or was cut off from Temporal",
	enumspb.TIMEOUT_TYPE_START_TO_CLOSE:    "the call took longer than it may",
	enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE: "the call took longer than it may",
	enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START: "no process took the call up in time",
}

// message is that of a failure, sealed or not. If it cannot be opened, it says why.
func message(c codec, f *failurepb.Failure) string {
	var opened any
	if sealed := f.GetEncodedAttributes(); sealed != nil {
		if err := c.FromPayload(sealed, &opened); err != nil {
			return "its text cannot be read: " + err.Error()
		}
	}
	converter.DecodeCommonFailureAttributes(c, f)
	return f.GetMessage()
}

// Reported is what the call has reported; the zero Error if it did not.
func (f Failure) Reported() (e workflows.Error) {
	app := f.failure.GetApplicationFailureInfo()
	if app == nil {
		app = f.failure.GetCause().GetApplicationFailureInfo()
	}
	if app == nil || f.codec.FromPayloads(app.Details, &e) != nil {
		return workflows.Error{}
	}
	var ended workflows.Failure // of a run that was called
	if e.Code == "" && f.codec.FromPayloads(app.Details, &ended) == nil {
		return ended.Error
	}
	return e
}

// OfCall reports whether the call itself has said how it ended, and not Temporal
// that it did not say.
func (f Failure) OfCall() bool { return f.failure.GetApplicationFailureInfo() != nil }

// Held reports whether the limits of the backend held the call back.
func (f Failure) Held() bool {
	return f.failure.GetApplicationFailureInfo().GetType() == string(codes.CategoryHeld)
}

// KnownOutcome reports whether what the attempt reported says that it is known
// what became of the call. It goes by the type of the failure, which is the
// category: of a long failure Temporal keeps that and no details, and the failure
// as a cause.
func (f Failure) KnownOutcome() bool {
	for at := f.failure; at != nil; at = at.Cause {
		if app := at.GetApplicationFailureInfo(); app != nil {
			return workflows.KnownOutcome(codes.Category(app.Type))
		}
	}
	return false
}

// MayHaveRun reports whether the call may have been executed, by the attempt or
// one before. One that nobody has reported, and one that cannot be read, leave that
// open.
func (f Failure) MayHaveRun() bool {
	var reported workflows.Error
	app := f.failure.GetApplicationFailureInfo()
	return app.GetDetails() == nil || f.codec.FromPayloads(app.GetDetails(), &reported) != nil || reported.MayHaveHappened()
}

// LeavesUnknown reports whether the failure of a whole call leaves it unknown
// whether that was made.
func (f Failure) LeavesUnknown() bool {
	var reported workflows.Error
	app := f.failure.GetApplicationFailureInfo()
	if app == nil || f.codec.FromPayloads(app.GetDetails(), &reported) != nil {
		return true
	}
	return reported.Category == codes.CategoryOutcomeUnknown || reported.Category == codes.CategoryCancelled
}

// status is what a call has come to that ended with the failure.
func (f Failure) status() string {
	switch {
	case f.lostWorker():
		return StepFailed
	case f.failure.GetTimeoutFailureInfo() != nil:
		return StepTimedOut
	case f.failure.GetCanceledFailureInfo() != nil:
		return StepCancelled
	}
	return StepFailed
}

// lostWorker reports whether a call ended with the worker that made it.
func (f Failure) lostWorker() bool {
	return f.failure.GetTimeoutFailureInfo().GetTimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT
}

// byReset reports whether it only says that the execution was reset.
func (f Failure) byReset() bool { return f.failure.GetResetWorkflowFailureInfo() != nil }
