package program_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/test/pgtest"
	"github.com/perdure/perdure/test/topology"
)

// A deployed command is one of perdure as a file of deploy/ or the compose file starts it.
type deployedCommand struct {
	args []string
	env  map[string]string // "" = from a secret
}

// TestDeployedCommands starts gateways, workers and what is beside them with the
// arguments and variables of the compose file, and of the chart with everything turned
// on, on a Temporal and a PostgreSQL: they are ready, and a call completes.
func TestDeployedCommands(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t)
	execute(t, pg, "postgres", "create database perdure")
	temporal := newTemporalOn(t, pg)
	for name, commands := range map[string][]deployedCommand{"compose": composedCommands(t), "chart": chartCommands(t)} {
		t.Run(name, func(t *testing.T) {
			d := &deployment{dir: t.TempDir(), env: map[string]string{
				"TEMPORAL_ADDRESS": temporal.address, "PERDURE_DATABASE_URL": pg.URL("perdure"), "PERDURE_KEY": strings.Repeat("0a", 32),
				"PERDURE_PAYLOAD_KEY_FILE": "payload.keys", "TEMPORAL_API_KEY": "", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
			}}
			d.files(t, name == "chart")
			d.try(t, commands)
		})
	}
}

func composedCommands(t *testing.T) (commands []deployedCommand) {
	t.Helper()
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
		}
	}
	text, err := os.ReadFile("../../docker-compose.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Services)) {
		if s := file.Services[name]; s.Image == "perdure" && !strings.HasSuffix(name, "-2") {
			commands = append(commands, deployedCommand{s.Command, s.Environment})
		}
	}
	return commands
}

func chartCommands(t *testing.T) (commands []deployedCommand) {
	t.Helper()
	text := perduretest.Read(t, "../../deploy/check/testdata/pods.yaml")
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var manifest struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Args []string
							Env  []struct{ Name, Value string }
						}
					}
				}
			}
		}
		if err := documents.Decode(&manifest); errors.Is(err, io.EOF) {
			return commands
		} else if err != nil {
			t.Fatal(err)
		}
		for _, c := range manifest.Spec.Template.Spec.Containers {
			env := map[string]string{}
			for _, v := range c.Env {
				env[v.Name] = v.Value
			}
			if old := slices.ContainsFunc(c.Args, func(arg string) bool { return arg == "--build-id=v1.3.0" || arg == "--build-id=V1_2" }); !old {
				commands = append(commands, deployedCommand{c.Args, env})
			}
		}
	}
}

// A deployment is what a file of deploy/ starts, with what is elsewhere here.
type deployment struct {
	dir     string
	env     map[string]string // of this machine
	gateway string            // its address
}

// files are what is mounted.
func (d *deployment) files(t *testing.T, tokens bool) {
	t.Helper()
	text := perduretest.Read(t, "../../deploy/perdure.yaml")
	config := string(text)
	if tokens {
		config += "incomingAuth: {type: token, tokenFile: tokens.yaml}\n"
		putFile(t, filepath.Join(d.dir, "tokens.yaml"), "tokens: [{subject: ann, env: ANN}]\n")
	}
	const soon = "name: soon\ndescription: Ends soon.\nsteps: [{id: wait, type: wait, for: 100ms}]\noutput: {properties: {done: {type: boolean, description: Whether it is done, value: true}}}\n"
	putFile(t, filepath.Join(d.dir, "definitions", "soon.yaml"), soon)
	if !tokens { // which mounts no directory of definitions
		config = strings.Replace(config, "compositeTools:\n", "compositeTools:\n  - {name: soon, description: Ends soon., steps: [{id: wait, type: wait, for: 100ms}]}\n", 1)
	}
	putFile(t, filepath.Join(d.dir, "perdure.yaml"), config)
	putFile(t, filepath.Join(d.dir, "key"), strings.Repeat("0b", 32)+"\n")
	putFile(t, filepath.Join(d.dir, "payload.keys"), "first:"+strings.Repeat("0c", 32)+"\n")
}

// listens is a flag with a port of all addresses, which here is one of this machine.
var listens = regexp.MustCompile(`^(--[a-z]*-?listen=)?:(4483|4484|4485|9464)$`)

// here gives the arguments as they are on this machine, and the address at which a
// command serves.
func (d *deployment) here(t *testing.T, command deployedCommand) (args []string, address string) {
	t.Helper()
	mounted := strings.NewReplacer("/etc/perdure-definitions", "definitions", "/etc/perdure/", "", "/run/secrets/perdure/", "")
	for _, arg := range command.args {
		if m := listens.FindStringSubmatch(arg); m != nil {
			free := perduretest.Must(pgtest.FreeAddress())(t)
			if arg = m[1] + free; m[2] != "9464" {
				address = free
			}
		}
		args = append(args, mounted.Replace(arg))
	}
	return args, address
}

func (d *deployment) variables(t *testing.T, command deployedCommand) []string {
	t.Helper()
	env := []string{"ANN=the-token-of-ann-is-long"}
	for name, value := range command.env {
		if here, ok := d.env[name]; ok {
			value = here
		} else if value == "" {
			t.Errorf("%v have the variable %s, whose value is not known", command.args, name)
		}
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// try starts what serves once what comes before it has ended.
func (d *deployment) try(t *testing.T, commands []deployedCommand) {
	t.Helper()
	first := []string{"migrate", "worker", "gateway", "codec", "rollout"}
	slices.SortStableFunc(commands, func(a, b deployedCommand) int {
		return slices.Index(first, a.args[0]) - slices.Index(first, b.args[0])
	})
	for _, command := range commands {
		args, address := d.here(t, command)
		env := slices.Concat(testEnvironment, d.variables(t, command))
		if address == "" {
			until(t, "perdure "+strings.Join(args, " "), func() bool { // a job is repeated
				cmd := program(t, d.dir, args...)
				cmd.Env = append(cmd.Env, env...)
				return cmd.Run() == nil
			})
			continue
		}
		page := map[string]string{"codec": "/healthz"}[args[0]]
		if page == "" {
			page = "/readyz"
		}
		p := &topology.Process{Name: args[0], Command: append([]string{"perdure"}, args...), Dir: d.dir, Env: env, Log: &topology.Transcript{}, Ready: topology.Answers("http://" + address + page)}
		serve(t, p)
		perduretest.NoError(t, p.AwaitReady(t.Context()))
		if args[0] == "gateway" {
			d.gateway = address
		}
	}
	cmd := program(t, d.dir, "call", "soon", "--url", "http://"+d.gateway+endpoint, "--token", "the-token-of-ann-is-long")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "completed") {
		t.Errorf("a call: %v, %s", err, out)
	}
}
