package main

import "github.com/perdure/perdure/gateway"

// quotas are what one caller may have; nil = the default. Ours.
type quotas struct {
	OpenRuns      *int `yaml:"openRuns"`
	RunsPerMinute *int `yaml:"runsPerMinute"`
	WaitingRuns   *int `yaml:"waitingRuns"`
	Requests      *int `yaml:"requests"`
}

func (r *configReader) quotas(c *quotas) gateway.Quotas {
	if c == nil {
		return gateway.Quotas{}
	}
	quota := func(name string, given *int, standard int) int {
		if given == nil {
			return 0
		}
		if *given < 1 {
			r.errorf(keyPath{"quotas", name}, "limit", "is %d; a caller must be allowed at least 1, and %d is the default", *given, standard)
		}
		return *given
	}
	standard := gateway.DefaultQuotas
	return gateway.Quotas{
		OpenRuns:      quota("openRuns", c.OpenRuns, standard.OpenRuns),
		RunsPerMinute: quota("runsPerMinute", c.RunsPerMinute, standard.RunsPerMinute),
		WaitingRuns:   quota("waitingRuns", c.WaitingRuns, standard.WaitingRuns),
		Requests:      quota("requests", c.Requests, standard.Requests),
	}
}
