package service

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
)

// Reload applies definitions when their files change, until ctx ends, and of the
// configuration effects, authorization and aggregation. Files with mistakes change
// nothing; the mistakes are logged, and shown in the status until they are corrected.
// Changes that need a restart are logged.
func (s *Service) Reload(ctx context.Context, src config.Sources) {
	log, running := s.opts.Logger, withoutReloaded(s.opts.Loaded.Settings)
	var before *error
	w := fileWatch{
		src: src, scripts: config.ScriptFiles(s.opts.Loaded.Definitions), loaded: s.opts.Loaded.Stamp, most: filePatience,
		stuck: func(err error) {
			if err == nil {
				s.reloadError.Store(before)
				return
			}
			before = s.reloadError.Swap(&err)
			log.Error("changed files cannot be read", "error", err)
		},
		changed: func(found *config.Loaded, err error) {
			if err == nil && src.Config != "" {
				err = s.reconfigure(found, running)
			}
			if err != nil {
				s.reloadError.Store(&err)
				log.Error("changed files have mistakes, and the server still uses the earlier ones; perdure validate shows them")
				for mistake := range strings.Lines(err.Error()) {
					log.Error("mistake", "error", strings.TrimSpace(mistake))
				}
				return
			}
			s.reloadError.Store(nil)
			s.registry.SetFiles(found.Definitions)
			log.Info("definitions reloaded", "definitions", namesOf(found.Definitions))
		},
	}
	w.run(ctx)
}

// reconfigure takes over what can change while the service runs. running is what it
// was started with.
func (s *Service) reconfigure(found *config.Loaded, running config.Settings) error {
	next := withoutReloaded(found.Settings)
	if err := s.pool.Reconfigure(unchanged(found.Backends, running, next), found.Aggregation); err != nil {
		return err
	}
	changed := needRestart(running, next)
	if reflect.DeepEqual(running.Auth, next.Auth) {
		changed = append(changed, exchangePolicy(&s.opts.Loaded.Auth, found.Auth)...)
	} else { // the rules are for callers who show who they are in another way
		changed = append(changed, "authorization (with incomingAuth or approvals)")
	}
	if len(changed) > 0 {
		s.opts.Logger.Warn("changes of the configuration need a restart; until then, what was there at the start holds", "keys", strings.Join(changed, ", "))
	}
	s.warnUnmatched(found)
	return nil
}

// unchanged are the backends that are reached as they are by the running service: the
// effects of others are of what is reached after a restart.
func unchanged(found []backends.Config, running, next config.Settings) (same []backends.Config) {
	for i, b := range found {
		if slices.ContainsFunc(running.Backends, func(was backends.Config) bool { return reflect.DeepEqual(was, next.Backends[i]) }) {
			same = append(same, b)
		}
	}
	return same
}

// exchangePolicy takes the rules of authorization over. Whether there are any is
// what listeners and workers are started by, so that needs a restart.
func exchangePolicy(old *config.Auth, next config.Auth) (restart []string) {
	if next.Ruled != old.Ruled || next.Policy.Ruled() != old.Policy.Ruled() {
		return []string{"authorization (rules where there were none, or none where there were rules)"}
	}
	if !next.Ruled {
		next.Policy.Publishers = old.Policy.Publishers // see LetPublish
	}
	old.Policy.Exchange(next.Policy)
	return nil
}

// withoutReloaded gives settings without what is taken over while the service runs.
func withoutReloaded(s config.Settings) config.Settings {
	s.Aggregation = backends.Aggregation{}
	s.Auth.Policy, s.Auth.Ruled = auth.Policy{}, false
	s.Backends = slices.Clone(s.Backends)
	for i := range s.Backends {
		s.Backends[i].Effects, s.Backends[i].TrustAnnotations = nil, false
	}
	return s
}

// restartKeys are the keys of the configuration by the settings that they make.
var restartKeys = map[string]string{
	"Name": "name", "Backends": "backends", "Prefix": "aggregation.compositeToolPrefix", "LogLevel": "operational.logLevel",
	"Auth": "incomingAuth or approvals", "Scripts": "scripts", "Quotas": "quotas", "MaxDepth": "maxWorkflowDepth",
	"Outgoing": "outgoingAuth", "Forwarding": "passthroughHeaders or passthroughMeta", "Limits": "limits of backends", "Telemetry": "telemetry", "Publishing": "publishing", "OnDisconnect": "onDisconnect",
}

// needRestart names the keys whose settings differ.
func needRestart(running, found config.Settings) (keys []string) {
	was, is := reflect.ValueOf(running), reflect.ValueOf(found)
	for i := range was.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			keys = append(keys, restartKeys[was.Type().Field(i).Name])
		}
	}
	slices.Sort(keys)
	return keys
}
