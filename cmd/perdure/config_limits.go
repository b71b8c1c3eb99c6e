package main

import (
	"time"

	"github.com/perdure/perdure/internal/limits"
)

// defaultOpen is how long a backend is left alone that has failed too often.
const defaultOpen = 30 * time.Second

// limits are those of the backends that have some.
func (r *configReader) limits(c *configFile) map[string]limits.Config {
	var all map[string]limits.Config
	for i, b := range c.Backends {
		if b.Limits == nil {
			continue
		}
		if config := r.limitsOf(keyPath{"backends", i, "limits"}, b.Limits); config.Limited() {
			if all == nil {
				all = map[string]limits.Config{}
			}
			all[b.Name] = config
		}
	}
	return all
}

func (r *configReader) limitsOf(p keyPath, l *callLimits) (out limits.Config) {
	if *l == (callLimits{}) {
		r.warnf(p, "limits", "limits nothing; say concurrency, rate or breaker")
	}
	if l.Concurrency < 0 {
		r.errorf(p.to("concurrency"), "limits", "is negative; it is how many calls may be under way at once")
	}
	out.Concurrency = l.Concurrency
	if l.Rate != "" {
		rate, err := limits.ParseRate(l.Rate)
		if err != nil {
			r.errorf(p.to("rate"), "limits", "%v", err)
		}
		out.Rate = rate
	}
	switch {
	case l.Burst < 0:
		r.errorf(p.to("burst"), "limits", "is negative; it is how many calls may begin at once")
	case l.Burst > 0 && l.Rate == "":
		r.errorf(p.to("burst"), "limits", "belongs to a rate, which is missing")
	case l.Burst > 0:
		out.Rate.Burst = l.Burst
	}
	if l.Breaker != nil {
		out.Breaker = r.breaker(p.to("breaker"), l.Breaker)
	}
	return out
}

func (r *configReader) breaker(p keyPath, b *breakerRules) limits.Breaker {
	if b.Failures <= 0 {
		r.errorf(p.to("failures"), "limits", "is missing: after how many failures calls are held back, at least 1")
	}
	if b.Window < 0 {
		r.errorf(p.to("window"), "limits", "is negative")
	}
	if b.Open < 0 {
		r.errorf(p.to("open"), "limits", "is negative")
	}
	open := time.Duration(b.Open)
	if open == 0 {
		open = defaultOpen
	}
	return limits.Breaker{Failures: b.Failures, Window: time.Duration(b.Window), Open: open}
}
