package service

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/config"
)

// A fileWatch looks once a second whether files have changed since they were loaded.
type fileWatch struct {
	src     config.Sources
	scripts []string                    // files beside the definitions
	loaded  string                      // stamp of the files when they were loaded
	changed func(*config.Loaded, error) // gets what they have now, and their mistakes
	stuck   func(error)                 // called when reading takes long, and with nil when it has ended
	most    time.Duration               // that reading takes before

	stamp string // of the files as they were loaded last
}

// filePatience is how long reading files may take before it is reported: a network
// share may not answer at all.
const filePatience = 10 * time.Second

// run looks until ctx ends.
func (w *fileWatch) run(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for look := w.begin; w.inTime(ctx, look); look = w.look {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// inTime does what may take for ever, without holding up the end of the process; false =
// ctx has ended.
func (w *fileWatch) inTime(ctx context.Context, look func() (then func())) bool {
	done := make(chan func(), 1)
	go func() { done <- look() }()
	late := time.NewTimer(w.most)
	defer late.Stop()
	for noted := false; ; noted = true {
		select {
		case then := <-done:
			if noted {
				w.stuck(nil)
			}
			then()
			return true
		case <-ctx.Done():
			return false
		case <-late.C:
			w.stuck(fmt.Errorf("reading the files takes longer than %s, and what was read before holds; see whether their file system answers", w.most))
		}
	}
}

func (w *fileWatch) begin() (then func()) {
	if w.src.Stamp() == w.loaded {
		w.stamp = w.src.Stamp(w.scripts...)
	}
	return func() {}
}

func (w *fileWatch) look() (then func()) {
	stamp := w.src.Stamp(w.scripts...)
	if stamp == w.stamp {
		return func() {}
	}
	w.stamp = stamp
	found, diags := config.Load(w.src)
	if named := config.ScriptFiles(found.Definitions); !slices.Equal(named, w.scripts) {
		w.scripts, w.stamp = named, w.src.Stamp(named...)
	}
	return func() { w.changed(found, diags.Err()) }
}

// FollowRules takes the rules of authorization over when the configuration changes, until
// ctx ends, in a process that has no other use for it. The policy of loaded must be
// exchangeable.
func FollowRules(ctx context.Context, src config.Sources, loaded *config.Loaded, log *slog.Logger) {
	callers := withoutReloaded(loaded.Settings).Auth
	w := fileWatch{
		src: src, loaded: loaded.Stamp, most: filePatience,
		stuck: func(err error) {
			if err != nil {
				log.Error("the configuration cannot be read", "error", err)
			}
		},
		changed: func(found *config.Loaded, err error) {
			var restart []string
			switch {
			case err != nil:
				log.Error("the changed configuration has mistakes; the rules of before hold", "error", err)
				return
			case reflect.DeepEqual(callers, withoutReloaded(found.Settings).Auth):
				restart = exchangePolicy(&loaded.Auth, found.Auth)
			default:
				restart = []string{"incomingAuth or approvals"}
			}
			if restart != nil {
				log.Warn("changes of the configuration need a restart; until then, what was there at the start holds", "keys", restart)
				return
			}
			log.Info("rules reloaded")
		},
	}
	w.run(ctx)
}
