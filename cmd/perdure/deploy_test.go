package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
	"go.yaml.in/yaml/v4"
)

// A container is what the files of deploy/ say of one of perdure's.
type container struct {
	name     string
	args     []string
	grace    time.Duration // that it gets to end
	env      []string
	health   []string // the command that asks whether it is ready; nil = probes do
	listens  []string // ports that are probed or served
	metrics  string   // port at which metrics are read; "" = they are not
	mounted  []string // directories and files
	fileName string
}

// TestDeployment holds the files with which perdure is deployed to the program:
// they cannot be run here.
func TestDeployment(t *testing.T) {
	t.Parallel()
	found, diags := config.Load(config.Sources{Config: "../../deploy/perdure.yaml"})
	if diags.HasErrors() || len(found.Definitions) == 0 {
		t.Errorf("deploy/perdure.yaml: %v", diags)
	}
	containers := append(composed(t, "../../docker-compose.yaml"), kubernetes(t, "../../deploy/kubernetes.yaml")...)
	var commands []string
	for _, c := range containers {
		commands = append(commands, c.args[0])
		checkContainer(t, c)
	}
	for _, c := range kubernetes(t, "../../deploy/check/testdata/pods.yaml") {
		checkContainer(t, c)
	}
	slices.Sort(commands)
	if want := []string{"gateway", "gateway", "gateway", "migrate", "worker", "worker", "worker"}; !slices.Equal(commands, want) {
		t.Errorf("the commands are %v, want %v", commands, want)
	}
}

func checkContainer(t *testing.T, c container) {
	t.Helper()
	var cli commandLine
	parser, err := kong.New(&cli, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	checkVariables(t, c, parser.Model)
	if c.args[0] == "migrate" { // its database is in the environment
		if !slices.Contains(c.env, "PERDURE_DATABASE_URL") {
			t.Errorf("%s, %s: does not say where the database is", c.fileName, c.name)
		}
		return
	}
	if _, err := parser.Parse(c.args); err != nil {
		t.Errorf("%s, %s: perdure %s: %v", c.fileName, c.name, strings.Join(c.args, " "), err)
		return
	}
	if c.args[0] != "gateway" && c.args[0] != "worker" {
		return
	}
	flags, keys, listen := cli.Gateway.roleFlags, cli.Gateway.keyFlags, cli.Gateway.Listen
	if c.args[0] == "worker" {
		flags, keys, listen = cli.Worker.roleFlags, cli.Worker.keyFlags, cli.Worker.HealthListen
	}
	if c.grace <= flags.Grace {
		t.Errorf("%s, %s: is killed after %s, but may take %s to end", c.fileName, c.name, c.grace, flags.Grace)
	}
	if !slices.Contains(c.env, "TEMPORAL_ADDRESS") {
		t.Errorf("%s, %s: does not name the Temporal", c.fileName, c.name)
	}
	if keys.KeyFile == "" && !slices.Contains(c.env, keyVar) {
		t.Errorf("%s, %s: has no key", c.fileName, c.name)
	}
	for _, file := range []string{flags.Config, keys.KeyFile} {
		if file != "" && !slices.Contains(c.mounted, file) && !slices.Contains(c.mounted, filepath.Dir(file)) {
			t.Errorf("%s, %s: %s is not mounted", c.fileName, c.name, file)
		}
	}
	if c.metrics != "" && flags.MetricsListen != ":"+c.metrics {
		t.Errorf("%s, %s: metrics are at %q, but port %s is read", c.fileName, c.name, flags.MetricsListen, c.metrics)
	}
	if c.health != nil {
		if at := asksAt(t, c.fileName+", "+c.name, c.health); at != listen {
			t.Errorf("%s, %s: listens on %q, but %q is asked how it is", c.fileName, c.name, listen, at)
		}
	}
	for _, port := range c.listens {
		if listen != ":"+port {
			t.Errorf("%s, %s: listens on %q, but port %s is used", c.fileName, c.name, listen, port)
		}
	}
}

// checkVariables finds variables of perdure's own that no flag reads.
func checkVariables(t *testing.T, c container, model *kong.Application) {
	t.Helper()
	known := []string{keyVar, payloadKeysVar}
	var collect func(*kong.Node)
	collect = func(n *kong.Node) {
		for _, f := range n.Flags {
			known = append(known, f.Envs...)
		}
		for _, child := range n.Children {
			collect(child)
		}
	}
	collect(model.Node)
	for _, variable := range c.env {
		if strings.HasPrefix(variable, "PERDURE_") && !slices.Contains(known, variable) {
			t.Errorf("%s, %s: nothing reads %s", c.fileName, c.name, variable)
		}
	}
}

// asksAt is the port that a health check asks, as a flag names it.
func asksAt(t *testing.T, who string, health []string) string {
	t.Helper()
	if len(health) < 3 || health[0] != "CMD" || filepath.Base(health[1]) != "perdure" || health[2] != "ready" {
		t.Errorf("%s: the health check is %v, want perdure ready", who, health)
		return ""
	}
	var cli commandLine
	parser, err := kong.New(&cli, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(health[2:]); err != nil {
		t.Errorf("%s: the health check %v: %v", who, health, err)
	}
	server, err := cli.Ready.serverFlags.url()
	at, errURL := url.Parse(server)
	if err != nil || errURL != nil {
		t.Fatal(err, errURL)
	}
	return ":" + at.Port()
}

// TestImageHealth holds the health check of the image to the program.
func TestImageHealth(t *testing.T) {
	t.Parallel()
	text := perduretest.Read(t, "../../deploy/Dockerfile")
	check := regexp.MustCompile(`(?m)^HEALTHCHECK .*CMD (\[.*\])$`).FindSubmatch(text)
	var command []string
	if check == nil || json.Unmarshal(check[1], &command) != nil {
		t.Fatal("the image has no health check that is executed without a shell")
	}
	if at := asksAt(t, "deploy/Dockerfile", append([]string{"CMD"}, command...)); at != ":4483" {
		t.Errorf("the image is asked at %s", at)
	}
}

// composed are the containers of perdure in a compose file.
func composed(t *testing.T, file string) []container {
	var compose struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Volumes     []string
			Grace       string `yaml:"stop_grace_period"`
			Healthcheck struct{ Test []string }
		}
	}
	documents := readYAML(t, file)
	decodeYAML(t, file, documents[0], &compose)
	var all []container
	for name, s := range compose.Services {
		if s.Image != "perdure" {
			continue
		}
		c := container{fileName: file, name: name, args: s.Command, health: s.Healthcheck.Test}
		c.grace, _ = time.ParseDuration(s.Grace) // 0 is not long enough
		for variable := range s.Environment {
			c.env = append(c.env, variable)
		}
		for _, volume := range s.Volumes {
			source, target, _ := strings.Cut(strings.TrimSuffix(volume, ":ro"), ":")
			c.mounted = append(c.mounted, target)
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), source)); err != nil {
				t.Errorf("%s, %s: %v", file, name, err)
			}
		}
		all = append(all, c)
	}
	return all
}

// kubernetes are the containers of perdure in Kubernetes manifests.
func kubernetes(t *testing.T, file string) []container {
	type probe struct {
		HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	}
	var all []container
	for _, document := range readYAML(t, file) {
		var manifest struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Template struct {
					Spec struct {
						Grace      int `yaml:"terminationGracePeriodSeconds"`
						Containers []struct {
							Args  []string
							Env   []struct{ Name string }
							Ports []struct {
								Name string
								Port string `yaml:"containerPort"`
							}
							Liveness  probe `yaml:"livenessProbe"`
							Readiness probe `yaml:"readinessProbe"`
							Lifecycle struct {
								PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
							}
							VolumeMounts []struct {
								MountPath string `yaml:"mountPath"`
							} `yaml:"volumeMounts"`
						}
					}
				}
			}
		}
		decodeYAML(t, file, document, &manifest)
		if manifest.Kind != "Deployment" && manifest.Kind != "Job" {
			continue
		}
		pod := manifest.Spec.Template.Spec
		for _, k := range pod.Containers {
			c := container{fileName: file, name: manifest.Metadata.Name, args: k.Args}
			c.grace = time.Duration(pod.Grace-k.Lifecycle.PreStop.Sleep.Seconds) * time.Second
			for _, e := range k.Env {
				c.env = append(c.env, e.Name)
			}
			for _, m := range k.VolumeMounts {
				c.mounted = append(c.mounted, m.MountPath)
			}
			for _, p := range k.Ports {
				if p.Name == "metrics" {
					c.metrics = p.Port
					continue
				}
				c.listens = append(c.listens, p.Port)
				if p.Name == "codec" {
					continue // which is ready as long as it lives
				}
				if k.Liveness.HTTPGet != struct{ Path, Port string }{"/healthz", p.Name} || k.Readiness.HTTPGet != struct{ Path, Port string }{map[bool]string{true: "/reachable", false: "/readyz"}[p.Name == "mcp"], p.Name} {
					t.Errorf("%s, %s: the probes are %+v and %+v", file, c.name, k.Liveness, k.Readiness)
				}
			}
			all = append(all, c)
		}
	}
	return all
}

func readYAML(t *testing.T, file string) []*yaml.Node {
	t.Helper()
	data := perduretest.Read(t, file)
	var all []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, &document)
	}
}

func decodeYAML(t *testing.T, file string, document *yaml.Node, into any) {
	t.Helper()
	if err := document.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestOperationsNamesFlags holds the flags that docs/operations.md names to
// those that some command has.
func TestOperationsNamesFlags(t *testing.T) {
	t.Parallel()
	text := perduretest.Read(t, "../../docs/operations.md")
	var cli commandLine
	parser := perduretest.Must(kong.New(&cli))(t)
	known := map[string]bool{}
	var collect func(*kong.Node)
	collect = func(n *kong.Node) {
		for _, f := range n.Flags {
			known["--"+f.Name] = true
		}
		for _, child := range n.Children {
			collect(child)
		}
	}
	collect(parser.Model.Node)
	for _, flag := range regexp.MustCompile("`[^`]*`").FindAllString(string(text), -1) {
		for _, name := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(flag, -1) {
			if strings.Contains(flag, "perdure ") || strings.HasPrefix(flag, "`--") {
				if !known[name] {
					t.Errorf("docs/operations.md names %s, which no command has", name)
				}
			}
		}
	}
}
