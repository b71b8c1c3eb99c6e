package config

import (
	"time"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/runs"
)

// defaultOpen is how long a backend is left alone that has failed too often.
const defaultOpen = 30 * time.Second

// limits are those of the backends that have some.
func (r *reader) limits(c *configuration) map[string]backends.Limits {
	var all map[string]backends.Limits
	for i, b := range c.Backends {
		if b.Limits == nil {
			continue
		}
		if config := r.limitsOf(keyPath{"backends", i, "limits"}, b.Limits); config.Limited() {
			if all == nil {
				all = map[string]backends.Limits{}
			}
			all[b.Name] = config
		}
	}
	return all
}

func (r *reader) limitsOf(p keyPath, l *callLimits) (out backends.Limits) {
	if *l == (callLimits{}) {
		r.warnf(p, "limits", "limits nothing; say concurrency, rate or breaker")
	}
	out.Concurrency = l.Concurrency
	if l.Rate != "" {
		rate, err := backends.ParseRate(l.Rate)
		if err != nil {
			r.errorf(p.to("rate"), "limits", "%v", err)
		}
		out.Rate = rate
	}
	switch {
	case l.Burst > 0 && l.Rate == "":
		r.errorf(p.to("burst"), "limits", "belongs to a rate, which is missing")
	case l.Burst > 0:
		out.Rate.Burst = l.Burst
	}
	if l.Breaker != nil {
		out.Breaker = breaker(l.Breaker)
	}
	return out
}

func breaker(b *breakerRules) backends.Breaker {
	open := time.Duration(b.Open)
	if open == 0 {
		open = defaultOpen
	}
	return backends.Breaker{Failures: b.Failures, Window: time.Duration(b.Window), Open: open}
}

func (r *reader) quotas(c *quotas) Quotas {
	if c == nil {
		return Quotas{}
	}
	return Quotas{OpenRuns: given(c.OpenRuns), RunsPerMinute: given(c.RunsPerMinute), WaitingRuns: given(c.WaitingRuns), Requests: given(c.Requests)}
}

func (r *reader) scripts(c *scripts) Scripts {
	if c == nil {
		return Scripts{}
	}
	s := Scripts{Agents: c.Agents}
	if c.Limits == nil {
		return s
	}
	s.Limits = &runs.ScriptLimits{Calls: c.Limits.Calls, Width: c.Limits.Width, Branches: c.Limits.Branches, Time: time.Duration(c.Limits.Time)}
	s.Limits.Steps, s.Limits.Memory, s.Limits.Value, s.Limits.Depth = c.Limits.Steps, c.Limits.Memory, c.Limits.Value, c.Limits.Depth
	return s
}
