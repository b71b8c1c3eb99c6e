package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/perdure/perdure/test/topology"
)

// plenty lets callers do what they like.
const plenty = "quotas: {openRuns: 1000000, runsPerMinute: 1000000, waitingRuns: 1000000, requests: 100000}\n"

// startProduction starts production with a configuration of the lab.
func (l *lab) startProduction(ctx context.Context, perdure, name, config string, gateway ...string) (*topology.Production, error) {
	dir := filepath.Join(l.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "perdure.yaml")
	if err := os.WriteFile(file, []byte(plenty+config), 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(perdure)
	if err != nil {
		return nil, err
	}
	return topology.Start(ctx, topology.Config{Dir: dir, Perdure: []string{program}, Standalone: []string{self}, ConfigFile: file,
		GatewayFlags: gateway, ServiceFlags: []string{"--log-level", "error"}})
}

// measureProduction prints a row for each shape, with one worker and with two.
func measureProduction(ctx context.Context, perdure, load string, shapes []shape, callers int, d time.Duration) error {
	l, err := newBackend(ctx, load)
	if err != nil {
		return err
	}
	defer l.close()
	fmt.Printf("%d callers for %s; processor time and growth for a run\n\n", callers, d)
	fmt.Print("| shape | tools | workers | p50 / p99 of one caller | runs per second | gateways | workers | Temporal | PostgreSQL | database |\n|" + strings.Repeat("---|", 10) + "\n")
	for _, tools := range []string{"default", "read"} {
		if err := l.measureShapes(ctx, perdure, tools, shapes, callers, d); err != nil {
			return fmt.Errorf("tools %s: %w", tools, err)
		}
	}
	return nil
}

func (l *lab) measureShapes(ctx context.Context, perdure, tools string, shapes []shape, callers int, d time.Duration) (err error) {
	p, err := l.startProduction(ctx, perdure, tools, l.configs[tools])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for workers := 2; workers > 0; workers-- {
		if workers == 1 {
			p.Workers[1].End()
		}
		for _, s := range shapes {
			before, err := spentBy(ctx, p)
			if err != nil {
				return err
			}
			seq, con, err := l.calling(p.URL+"/mcp", func() (time.Duration, error) { return 0, nil })(ctx, s, callers, d)
			if err != nil {
				return err
			}
			if bad := seq.Errors + seq.ToolError + con.Errors + con.ToolError; bad > 0 {
				return fmt.Errorf("%s: %d calls failed, the first: %s%s", s.name, bad, seq.First, con.First)
			}
			after, err := spentBy(ctx, p)
			if err != nil {
				return err
			}
			fmt.Printf("| %s | %s | %d | %.1f / %.1f ms | %.0f |%s\n", s.name, tools, workers, seq.P50, seq.P99, con.PerSecond, after.since(before, runsOf(seq, con, callers)))
		}
	}
	return nil
}

// A spending is what the parts of production have taken.
type spending struct {
	gateways, workers, temporal, postgresql time.Duration // of processors
	database                                int64         // bytes
}

func spentBy(ctx context.Context, p *topology.Production) (s spending, err error) {
	sum := func(processes ...*topology.Process) (all time.Duration) {
		for _, one := range processes {
			if one.Running() {
				spent, failed := family(one.PID())
				all, err = all+spent, errors.Join(err, failed)
			}
		}
		return all
	}
	s = spending{gateways: sum(p.Gateways...), workers: sum(p.Workers...), temporal: sum(&p.Temporal.Process), postgresql: sum(&p.PostgreSQL.Process)}
	if err != nil {
		return s, err
	}
	db, err := sql.Open("pgx", p.PostgreSQL.URL("postgres"))
	if err != nil {
		return s, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "select sum(pg_database_size(oid)) from pg_database").Scan(&s.database)
	return s, err
}

// since is what was taken for each of so many runs, as cells.
func (s spending) since(before spending, runs int) string {
	text := ""
	for _, d := range []time.Duration{s.gateways - before.gateways, s.workers - before.workers, s.temporal - before.temporal, s.postgresql - before.postgresql} {
		text += fmt.Sprintf(" %.1f ms |", d.Seconds()*1000/float64(runs))
	}
	return text + fmt.Sprintf(" %.1f KB |", float64(s.database-before.database)/1024/float64(runs))
}

// family is the time that a process and those that it has started have computed.
func family(pid int) (time.Duration, error) {
	all, err := processor(pid)
	listed, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // other systems do not say
	for child := range strings.FieldsSeq(string(listed)) {
		if number, failed := strconv.Atoi(child); failed == nil {
			spent, _ := processor(number) // it may have ended
			all += spent
		}
	}
	return all, err
}
