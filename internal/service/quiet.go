package service

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/secrets"
)

// Quiet drops messages of Temporal's client below a warning, and those that perdure
// logs itself or causes on purpose.
func Quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

type quietHandler struct{ slog.Handler }

// Enabled refuses what is below a warning.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// dropped are messages about failed calls of tools, which the activities log, about slow
// reads that are made again, and about heartbeats: another follows, a call that is
// cancelled has none, and that Temporal is away is logged once.
var dropped = []string{"Activity error.", "LocalActivity completed after activity deadline.", "RecordActivityHeartbeat with error"}

// Handle drops messages that are logged elsewhere.
func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case slices.Contains(dropped, r.Message):
		return nil
	case r.Message == "Workflow panic" && lacksKey(r), r.Message == "Workflow has unhandled signals" && onlyMarks(r):
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// lacksKey reports whether a workflow task was given to another worker, which may have
// the key of a signal, or of a payload; a warning follows.
func lacksKey(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "Error" {
			text := a.Value.String()
			is = strings.Contains(text, secrets.ErrUnknownKey.Error()) || strings.Contains(text, payloads.ErrNoKey.Error())
		}
		return !is
	})
	return is
}

// onlyMarks reports whether all signals that a run has not read are marks, which none reads.
func onlyMarks(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		if names, ok := a.Value.Any().([]string); ok && a.Key == "SignalNames" {
			is = !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(quarantine.Signals, name) })
		}
		return !is
	})
	return is
}

// WithAttrs stays quiet.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup stays quiet.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
