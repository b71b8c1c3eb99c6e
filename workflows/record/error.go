package record

import "github.com/perdure/perdure/internal/codes"

// An Error reports why a step or a run failed, from the activity to the client.
type Error struct {
	Code           codes.Code     `json:"code"`
	Category       codes.Category `json:"category"`
	Message        string         `json:"message"` // for people and models; names what to do where that is known
	StepID         string         `json:"stepId,omitempty"`
	StepPath       StepPath       `json:"stepPath,omitempty"` // e.g. check[17]
	Tool           string         `json:"tool,omitempty"`
	Attempt        int            `json:"attempt,omitempty"` // of the attempt that failed last; 1 = first
	Retryable      bool           `json:"retryable"`         // whether calling again may help
	RunID          string         `json:"runId,omitempty"`
	Backtrace      string         `json:"backtrace,omitempty"`      // stack of a script, a line for each function
	EarlierUnknown bool           `json:"earlierUnknown,omitempty"` // an earlier attempt may have been executed; the run clears it
	Hint           string         `json:"hint,omitempty"`           // what to do; set where the error is shown, and never recorded
}

func (e *Error) Error() string { return e.Message }

// MayHaveHappened reports whether a failed call, which may be repeated with the same
// key, may have been executed, by this attempt or an earlier one. No later failure
// settles that: an attempt that was not sent is no evidence, and an answer may be about
// the second request alone.
func (e *Error) MayHaveHappened() bool {
	switch e.Code {
	case codes.ConnectionLost, codes.WorkerLost, codes.StepTimeout, codes.Internal, codes.Cancelled:
		return true
	}
	return e.EarlierUnknown
}

// Executed reports whether the failed call was executed: only its output is unusable.
func (e *Error) Executed() bool {
	return e.Code == codes.InvalidOutput || e.Code == codes.OutputTooLarge
}

// Unknown reports whether e leaves unknown if the call at a path was executed.
func (e *Error) Unknown(path StepPath) bool {
	return e != nil && e.Category == codes.CategoryOutcomeUnknown && e.StepPath == path
}

// BrokeDown reports whether a run has ended with an error that does not report its
// effects. Scripts cannot raise these categories.
func (e *Error) BrokeDown() bool {
	return e.Category == codes.CategoryTerminated || (e.Code == codes.Internal || e.Code == codes.Quarantined) && e.Category == codes.CategoryInternal
}

// FromOutside reports whether the run was ended from outside.
func (e *Error) FromOutside() bool {
	return e.Category == codes.CategoryCancelled || e.Category == codes.CategoryTerminated
}

func (e *Error) bytes() int {
	if e == nil {
		return 0
	}
	return PayloadSize(e.Message)
}
