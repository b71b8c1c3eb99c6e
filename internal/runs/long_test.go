package runs_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// BenchmarkLongHistory is what reading the history of a long run costs: a thousand
// calls and a question, some 5,000 events.
func BenchmarkLongHistory(b *testing.B) {
	c, _ := connect(b)
	req := request(b, `
name: long
description: Does much.
parameters: {type: object, properties: {as: {type: string}, all: {type: array}}}
steps:
  - {id: each, type: forEach, collection: "{{json .params.all}}", maxIterations: 1000, maxParallel: 50, step: {tool: write, arguments: {text: "{{.forEach.item}}"}}}
  - {id: ask, type: elicitation, message: Go on?, dependsOn: [each]}
  - {id: last, tool: write, dependsOn: [ask], arguments: {text: "done"}}
`)
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	arguments := perduretest.Must(json.Marshal(map[string]any{"as": b.Name(), "all": all}))(b)
	req.Arguments = arguments
	id := start(b, c, req)
	for e, err := range c.Follow(b.Context(), id, 0, runs.AllEvents) {
		if err != nil || e.Kind == runs.EventDone {
			b.Fatal(err, e.Outcome.Failure)
		}
		if e.Kind == runs.EventOpened {
			break
		}
	}
	answer(b, c, id, runs.Answer{ElicitationID: "ask#1", Action: "accept", By: "ada"})
	followTo(b, c, id, 0, runs.EventDone)

	count := func(n int, err error) int {
		if err != nil {
			b.Fatal(err)
		}
		return n + 1
	}
	readers := []struct {
		name string
		read func() int
	}{
		{"follow", func() (n int) {
			for _, err := range c.Follow(b.Context(), id, 0, runs.AllEvents) {
				n = count(n, err)
			}
			return n
		}},
		{"show", func() int {
			d := perduretest.Must(c.Show(b.Context(), id))(b)
			return len(d.Steps)
		}},
		{"log", func() (n int) {
			for _, err := range c.Log(b.Context(), id, false) {
				n = count(n, err)
			}
			return n
		}},
		{"given", func() int {
			g := perduretest.Must(c.Given(b.Context(), id))(b)
			return 1000 + len(g.Answers)
		}},
		{"call before", func() int {
			_, err := c.CallHistory().CallBeforeReset(b.Context(), string(id), "", "", "of no call", time.Time{})
			return count(1000, err)
		}},
	}
	for _, r := range readers {
		b.Run(r.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := r.read(); n < 1000 {
					b.Fatal(fmt.Sprint("it has read ", n))
				}
			}
		})
	}
}
