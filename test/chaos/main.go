// Command chaos shows that perdure's promises hold while everything breaks: it
// starts production as processes, lets clients of every kind call, people answer
// on every channel, and a nemesis kill, stop and cut off one part after the
// other, and fill a disk. Then it lets everything come to rest, reads what
// backends have done, what histories say and what clients were told, and holds
// it against the sentences of docs/contract.md. See docs/chaos.md.
//
//	make chaos                 five minutes
//	make chaos SEED=17 TIME=1m once more
//
// With -faulty it ends with a short storm over workers that repeat unsafe calls
// whose outcome is not known, which the checker must find.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "backend" {
		if err := backendMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "chaos backend:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getuid() == 0 && os.Getenv(separate) == "" {
		os.Exit(again())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// separate says that this process has a mount namespace of its own.
const separate = "CHAOS_SEPARATE"

// again runs this program with a mount namespace of its own, with which the
// small disk goes that it mounts.
func again() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), separate+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	_ = cmd.Wait() // its state says how
	return cmd.ProcessState.ExitCode()
}

func run(ctx context.Context) (err error) {
	var p programs
	flag.StringVar(&p.perdure, "perdure", "bin/perdure-nodev", "the program perdure")
	flag.StringVar(&p.faulty, "faulty", "", "one (-tags planted) whose workers then repeat unsafe calls; empty: none is tried")
	flag.StringVar(&p.prodlocal, "prodlocal", "bin/prodlocal", "the program prodlocal, for Temporal and its Web UI")
	seed := flag.Uint64("seed", rand.Uint64N(1_000_000), "of everything that is left to chance")
	length := flag.Duration("time", 4*time.Minute, "how long the storm is")
	flag.Float64Var(&p.rate, "rate", 5, "calls that begin a second")
	kept := flag.String("kept", ".chaos", "directory for what is kept of a failure")
	only := flag.String("only", "", "do only the harm that matches, such as 'kill (worker|temporal)'")
	clients := flag.String("clients", "", "have only the kinds of clients that match, such as 'no key'")
	flag.Parse()
	if p.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if p.clients, err = regexp.Compile(*clients); err != nil {
		return fmt.Errorf("-clients: %w", err)
	}
	if p, err = p.absolute(); err != nil {
		return err
	}
	fmt.Printf("seed %d\n", *seed)
	faulty := p.faulty
	p.faulty = ""
	broken, err := try(ctx, p, *seed, *length, *kept, nil)
	if err == nil && len(broken) > 0 {
		err = fmt.Errorf("%d promises are broken; once more: make chaos SEED=%d", len(broken), *seed)
	}
	if err != nil || faulty == "" {
		return err
	}
	p.faulty = faulty
	fmt.Println("\nwith workers that repeat unsafe calls")
	caught := func(broken []string) bool {
		return slices.ContainsFunc(broken, func(b string) bool { return strings.HasPrefix(b, "an unsafe effect happens at most once") })
	}
	for storm := range uint64(plantedStorms) {
		if broken, err = try(ctx, p, *seed+storm, min(*length, 15*time.Second), *kept, caught); err != nil {
			return err
		}
		if caught(broken) {
			fmt.Printf("found: %s\n", broken[0])
			return nil
		}
	}
	return fmt.Errorf("in %d storms the checker has not found that unsafe calls were repeated", plantedStorms)
}

// plantedStorms is in how many short storms the planted fault must show: in one
// of them it may be that no answer of an unsafe call is lost.
const plantedStorms = 4

func (p programs) absolute() (programs, error) {
	var errs []error
	for _, path := range []*string{&p.perdure, &p.faulty, &p.prodlocal} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if _, missing := os.Stat(absolute); missing != nil {
			err = missing
		}
		*path = absolute
		errs = append(errs, err)
	}
	var err error
	p.self, err = os.Executable()
	return p, errors.Join(append(errs, err)...)
}

// try has one storm, and gives what is broken. What was written is kept if
// something is, unless that was wanted.
func try(ctx context.Context, p programs, seed uint64, length time.Duration, kept string, wanted func([]string) bool) (broken []string, err error) {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as somebody else
		return nil, err
	}
	defer func() {
		if err != nil || len(broken) > 0 && (wanted == nil || !wanted(broken)) {
			err = errors.Join(err, keep(dir, kept, seed, broken))
		}
		_ = os.RemoveAll(dir)
	}()
	w, err := newWorld(ctx, p, dir, seed)
	defer w.close()
	if err != nil {
		return nil, err
	}
	harms, err := w.storm(length)
	if err != nil {
		return nil, err
	}
	r, err := w.collect()
	if err != nil {
		return nil, err
	}
	broken = check(r)
	if wanted == nil {
		fmt.Print(figures(r, seed, length, harms, broken))
	}
	for _, b := range broken {
		if wanted == nil || !wanted(broken) {
			fmt.Println("BROKEN", b)
		}
	}
	return broken, errors.Join(write(filepath.Join(dir, "record.json"), r), w.writeHistories(broken))
}

// writeHistories writes the histories of runs of which something is broken.
func (w *world) writeHistories(broken []string) error {
	all := strings.Join(broken, "\n")
	for id, history := range w.histories {
		if !strings.Contains(all, id) {
			continue
		}
		raw, err := protojson.MarshalOptions{Multiline: true}.Marshal(history)
		if err == nil {
			err = os.WriteFile(filepath.Join(w.dir, strings.ReplaceAll(id, "/", "-")+".json"), raw, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func write(file string, v any) error {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o644)
}

// keep copies what was written to a directory of the seed, and notes the seed.
func keep(dir, kept string, seed uint64, broken []string) error {
	to := filepath.Join(kept, fmt.Sprintf("%d-%s", seed, time.Now().Format("150405")))
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"*.log", "*.effects", "*.json", "*.yaml"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is good
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, filepath.Base(file)), raw, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	f, err := os.OpenFile(filepath.Join(kept, "seeds"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Printf("kept in %s\n", to)
	_, err = fmt.Fprintf(f, "%d %s %d broken\n", seed, time.Now().Format(time.RFC3339), len(broken))
	return err
}
