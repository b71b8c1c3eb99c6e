//go:build planted

package service

import (
	"context"
	"errors"

	"github.com/perdure/perdure/activities"
	"github.com/perdure/perdure/internal/backends"
)

// Repeating is the fault that test/chaos must find: a call whose answer was lost is
// made again at once, whatever its class.
type repeating struct{ activities.Caller }

func (r repeating) Call(ctx context.Context, call backends.Call) (*backends.Result, error) {
	result, err := r.Caller.Call(ctx, call)
	var lost *backends.CallError
	if errors.As(err, &lost) && lost.Outcome == backends.Unknown && ctx.Err() == nil {
		return r.Caller.Call(ctx, call)
	}
	return result, err
}
