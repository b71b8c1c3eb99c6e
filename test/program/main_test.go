package program_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology/standalone"
)

func TestMain(m *testing.M) {
	programs := standalone.Programs()
	if _, isProgram := programs[filepath.Base(os.Args[0])]; !isProgram {
		if err := buildPerdure(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	testscript.Main(m, programs)
}

// buildPerdure builds the program under test, as make build does, once for all tests, and
// puts it into PATH.
func buildPerdure() error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	build := exec.Command("make", "--no-print-directory", "build")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building perdure: %w\n%s", err, out)
	}
	return os.Setenv("PATH", filepath.Join(root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// buildPlanted builds the program of production into which PERDURE_PLANTED plants
// something, once for the tests that need it.
func buildPlanted(t *testing.T) string {
	t.Helper()
	return perduretest.Must(plantedProgram())(t)
}

var plantedProgram = sync.OnceValues(func() (string, error) {
	program, err := filepath.Abs("../../bin/perdure-planted")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "nodev planted", "-ldflags", "-s -w", "-o", program, "./cmd/perdure")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building perdure with something planted: %w\n%s", err, out)
	}
	return program, nil
})

// Each testdata/script/*.txtar is a script of commands with this very program
// as perdure. See https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript
// for the language. Beside it there are
//
//	repository DIR   make a git repository with three commits there
//	keypair FILE     make the key pair with which a dev and its Temporal are reached
//	alive ADDRESS    wait until the server at host:port answers, ready or not
//	ready ADDRESS    wait until the server at host:port is ready
//	await TEXT ARG…  run perdure with the arguments until it prints the text
//	expand FILE TO   copy a file with the variables in it expanded
//	terminal KEYS SCREEN ARG…
//	                 run perdure at a terminal with a person who types KEYS, and compare what
//	                 it shows with SCREEN; see runInTerminal
//	milestone NAME   log the time since the milestone before
//
// and in the environment of each script, addresses that are free: $MCP, $UI,
// $TEMPORAL, and $TAKEN, which is not; and $SERVERS, the directory of servers from
// npm, where the condition npm holds.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *perduretest.Update,
		Setup:               setUpScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"repository": makeRepository,
			"keypair":    makeKeyPair,
			"alive":      awaitPage("healthz"),
			"ready":      awaitPage("readyz"),
			"await":      await,
			"expand":     expand,
			"terminal":   runInTerminal,
			"milestone":  passMilestone,
		},
		Condition: func(name string) (bool, error) {
			_, err := exec.LookPath("node")
			return name == "npm" && err == nil && hasServers(), nil
		},
	})
}

func setUpScript(env *testscript.Env) error {
	for _, name := range []string{"MCP", "UI", "TEMPORAL"} {
		address, err := pgtest.FreeAddress()
		if err != nil {
			return err
		}
		env.Setenv(name, address)
	}
	servers, err := filepath.Abs(npmModules)
	if err != nil {
		return err
	}
	env.Setenv("SERVERS", servers)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	env.Defer(func() { taken.Close() })
	env.Setenv("TAKEN", taken.Addr().String())
	env.Setenv("NO_COLOR", "1")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env.Setenv("GIT_"+who+"_NAME", "Ada Tester")
		env.Setenv("GIT_"+who+"_EMAIL", "ada@example.com")
		env.Setenv("GIT_"+who+"_DATE", "2026-01-02T03:04:05Z")
	}
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Values[environmentKey{}] = env
	env.Values[milestoneKey{}] = &milestones{time.Now(), time.Now()}
	return nil
}

// npmModules are the servers from npm that make servers installs, in $SERVERS.
const npmModules = "testdata/servers/node_modules/@modelcontextprotocol"

func hasServers() bool {
	_, err := os.Stat(npmModules)
	return err == nil
}

// expand copies a file with the variables in it expanded: expand FILE TO.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expand FILE TO")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

// makeRepository makes what the built-in backend can read.
func makeRepository(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: repository DIR")
	}
	dir := ts.MkAbs(args[0])
	git := func(args ...string) { ts.Check(ts.Exec("git", append([]string{"-C", dir}, args...)...)) }
	ts.Check(os.MkdirAll(filepath.Join(dir, "docs"), 0o755))
	git("init", "--quiet", "--initial-branch", "main")
	for i, file := range []string{"README.md", "main.go", "docs/guide.md"} {
		ts.Check(os.WriteFile(filepath.Join(dir, file), []byte(fmt.Sprintf("file %d\n", i)), 0o644))
		git("add", ".")
		git("commit", "--quiet", "-m", "Add "+file)
	}
}

func makeKeyPair(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keypair FILE")
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o700))
	_, err := web.OpenPair(ts.MkAbs(args[0]))
	ts.Check(err)
}

// patience is how long tests wait for something to happen, on a machine that has
// other things to do.
const patience = 4 * time.Minute

// awaitPage waits until a page of the server is served with status 200.
func awaitPage(page string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("usage: alive|ready ADDRESS")
		}
		poll(ts, "/"+page+" of the server", func() bool {
			response, err := http.Get("http://" + args[0] + "/" + page)
			if err != nil {
				return false
			}
			response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
	}
}

// await runs perdure until what it prints on standard output holds a text, or
// with ! until it does not hold it any more: await TEXT ARGUMENT…
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] await TEXT ARGUMENT...")
	}
	poll(ts, fmt.Sprintf("perdure %s to print %q", strings.Join(args[1:], " "), args[0]), func() bool {
		err := ts.Exec("perdure", args[1:]...)
		return err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) != neg
	})
}

func poll(ts *testscript.TestScript, what string, done func() bool) {
	if !eventually(done) {
		ts.Fatalf("waited %s for %s", patience, what)
	}
}
