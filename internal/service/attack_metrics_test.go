package service

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/telemetry"
)

// bearers authenticates each request as the subject that its token names.
type bearers struct{}

func (bearers) Authenticate(r *http.Request) (auth.Identity, error) {
	subject, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return auth.Identity{}, errors.New("no token")
	}
	group := map[string]string{"probe": "scrapers"}[subject]
	return auth.Identity{Issuer: "https://idp.example.com", Subject: subject, Groups: []string{group}}, nil
}

// TestAttackMetrics: at the port of callers, who may call everything, or operate
// every run, reads no metrics without being named for them.
func TestAttackMetrics(t *testing.T) {
	t.Parallel()
	told := perduretest.Must(telemetry.Start(t.Context(), telemetry.Options{Prometheus: true}))(t)
	t.Cleanup(func() { _ = told.Stop(t.Context()) })
	everything := auth.Grant{Tools: []string{"*"}, Groups: []string{"*"}}
	rules := auth.Policy{Rules: []auth.Rule{{Grant: everything}}, Operators: []auth.Grant{everything}}
	named := rules
	named.Issuer, named.Metrics = "https://idp.example.com", []string{"monitor", "group:scrapers"}
	for name, c := range map[string]struct {
		callers auth.Authenticator
		policy  auth.Policy
		codes   map[string]int // by subject; "" = no token
	}{
		"rules":            {bearers{}, rules, map[string]int{"": 401, "alice": 403, "monitor": 403}},
		"tokens, no rules": {bearers{}, auth.Policy{}, map[string]int{"": 401, "alice": 403}},
		"names":            {bearers{}, named, map[string]int{"": 401, "alice": 403, "monitor": 200, "probe": 200}},
		"everybody":        {auth.Everybody{}, auth.Policy{}, map[string]int{"": 200}},
		"nobody is named":  {auth.Everybody{}, auth.Policy{Metrics: []string{}}, map[string]int{"": 403}},
		"everybody, rules": {auth.Everybody{}, rules, map[string]int{"": 403}},
	} {
		s := &Service{shared: &shared{callers: c.callers, opts: Options{Telemetry: told,
			Loaded: &config.Loaded{Settings: config.Settings{Auth: config.Auth{Policy: c.policy}, Telemetry: telemetry.Options{Prometheus: true}}}}}}
		for subject, want := range c.codes {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+metricsPath, nil)
			if subject != "" {
				r.Header.Set("Authorization", "Bearer "+subject)
			}
			w := httptest.NewRecorder()
			s.health().ServeHTTP(w, r)
			if shows := strings.Contains(w.Body.String(), "# TYPE"); w.Code != want || shows != (want == 200) {
				t.Errorf("%s: %q gets %d, want %d; metrics are shown: %v", name, subject, w.Code, want, shows)
			}
		}
	}
}
