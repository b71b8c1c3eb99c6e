package check

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestCompose has the compose file read as docker compose reads it: interpolated,
// validated against the schema of the Compose Specification, and with what
// services depend on found.
func TestCompose(t *testing.T) {
	t.Parallel()
	project, err := compose(t, "PERDURE_KEY=k", "POSTGRES_PASSWORD=p")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"collector", "gateway-1", "gateway-2", "grafana", "perdure-schema", "postgresql", "prometheus",
		"proxy", "temporal", "temporal-schema", "ui", "ui-proxy", "worker-1", "worker-2"}
	if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got, want) {
		t.Errorf("services %v, want %v", got, want)
	}
	for name, s := range project.Services {
		checkService(t, name, s, project)
	}
}

// TestComposeChecksHosts: the Web UI, which answers to any name, is reached by a
// proxy that answers to one. Caddy matches the host of --from, if it has one.
func TestComposeChecksHosts(t *testing.T) {
	t.Parallel()
	project, err := compose(t, "PERDURE_KEY=k", "POSTGRES_PASSWORD=p")
	if err != nil {
		t.Fatal(err)
	}
	if ports := project.Services["ui"].Ports; len(ports) > 0 {
		t.Errorf("the Web UI is open itself: %+v", ports)
	}
	command := project.Services["ui-proxy"].Command
	for _, name := range []string{"gateway-1", "gateway-2"} { // which would not start
		if !slices.Contains(project.Services[name].Command, "--allow-anonymous") {
			t.Errorf("%s serves anonymous callers, and does not say that this is meant", name)
		}
	}
	from := slices.Index(command, "--from") + 1
	if u, err := url.Parse(command[from]); from == 0 || err != nil || u.Hostname() != "localhost" {
		t.Errorf("what is before the Web UI answers to any name: %q", command)
	}
}

func checkService(t *testing.T, name string, s types.ServiceConfig, project *types.Project) {
	t.Helper()
	for _, v := range s.Volumes {
		if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, named := project.Volumes[v.Source]; v.Type == types.VolumeTypeVolume && !named {
			t.Errorf("%s: the volume %q has no name", name, v.Source)
		}
	}
	for _, p := range s.Ports {
		if p.HostIP != "127.0.0.1" {
			t.Errorf("%s: port %s is open to other machines", name, p.Published)
		}
	}
	if s.Build == nil && !regexp.MustCompile(`:v?[0-9]+\.[0-9]+`).MatchString(s.Image) {
		t.Errorf("%s: the image %s has no version", name, s.Image)
	}
	if s.MemLimit <= 0 {
		t.Errorf("%s may take all of the machine's memory", name)
	}
	checkHealth(t, name, s, project)
}

// checkHealth: every service that goes on says how it is, and who needs another
// waits until that is well, or has ended well.
func checkHealth(t *testing.T, name string, s types.ServiceConfig, project *types.Project) {
	t.Helper()
	ends := ends(name, project)
	if healthy := s.HealthCheck != nil && !s.HealthCheck.Disable; healthy == (ends || name == "collector") {
		t.Errorf("%s has a health check: %t", name, healthy)
	}
	if h := s.HealthCheck; h != nil && !h.Disable && (h.Timeout == nil || time.Duration(*h.Timeout) > 10*time.Second) {
		t.Errorf("%s: a health check that hangs has no short timeout", name)
	}
	for other, d := range s.DependsOn {
		want := types.ServiceConditionHealthy
		if strings.HasSuffix(other, "-schema") {
			want = types.ServiceConditionCompletedSuccessfully
		}
		if d.Condition != want {
			t.Errorf("%s waits for %s to be %s, want %s", name, other, d.Condition, want)
		}
	}
}

// ends says whether others wait for a service to end.
func ends(name string, project *types.Project) bool {
	for _, s := range project.Services {
		if s.DependsOn[name].Condition == types.ServiceConditionCompletedSuccessfully {
			return true
		}
	}
	return false
}

// TestComposeTemporal: Temporal and its Web UI have the versions in the compose file that
// perdure is built and tested with, and so has Go in the Dockerfile. Whether a registry
// has the images is not looked at.
func TestComposeTemporal(t *testing.T) {
	t.Parallel()
	project, err := compose(t, "PERDURE_KEY=k", "POSTGRES_PASSWORD=p")
	if err != nil {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^(?:\t|)(\S+) v?(\S+)$`)
	versions := map[string]string{}
	for _, module := range required.FindAllStringSubmatch(read(t, "../../go.mod"), -1) {
		versions[module[1]] = module[2]
	}
	const server = "go.temporal.io/server"
	for _, c := range []struct{ what, image, module string }{
		{"temporal", project.Services["temporal"].Image, server},
		{"temporal-schema", project.Services["temporal-schema"].Image, server},
		{"ui", project.Services["ui"].Image, "github.com/temporalio/ui-server/v2"},
		{"the Dockerfile", regexp.MustCompile(`golang:\S+`).FindString(read(t, "../Dockerfile")), "go"},
	} {
		if version := versions[c.module]; version == "" || !strings.HasSuffix(c.image, ":"+version) {
			t.Errorf("%s has the image %q, go.mod has %s %q", c.what, c.image, c.module, version)
		}
	}
}

// TestComposeTemporalSettings holds the settings of Temporal to the files that its
// images are made of, which are in its module.
func TestComposeTemporalSettings(t *testing.T) {
	t.Parallel()
	project, err := compose(t, "PERDURE_KEY=k", "POSTGRES_PASSWORD=p")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "go.temporal.io/server")
	list.Dir = "../.."
	out, err := list.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Fatalf("where the module is: %q, %v", dir, err)
	}
	reads := read(t, dir+"/docker/config_template.yaml") + read(t, dir+"/docker/scripts/sh/entrypoint.sh")
	for name := range project.Services["temporal"].Environment {
		if !strings.Contains(reads, name) {
			t.Errorf("the image of Temporal does not read %s", name)
		}
	}
	known := read(t, dir+"/common/dynamicconfig/constants.go")
	settings := read(t, "../temporal.yaml")
	for _, key := range regexp.MustCompile(`(?m)^([a-zA-Z.]+):$`).FindAllStringSubmatch(settings, -1) {
		if !strings.Contains(strings.ToLower(known), strings.ToLower(`"`+key[1]+`"`)) {
			t.Errorf("Temporal has no setting %s", key[1])
		}
	}
	if !strings.Contains(settings, "frontend.namespaceRPS.visibility:\n  - value: 200\n") {
		t.Error("the index of runs may be queried another number of times than docs/operations.md says")
	}
	command := strings.Join(project.Services["temporal-schema"].Command, "\n")
	_, path, _ := strings.Cut(command, "--schema-dir /etc/temporal/")
	path, _, _ = strings.Cut(path, "\n")
	for _, schema := range []string{"temporal", "visibility"} {
		schemas := filepath.Join(dir, strings.ReplaceAll(path, "$schema", schema))
		if _, err := os.Stat(schemas); path == "" || err != nil {
			t.Errorf("the schema of %s: %q, %v", schema, path, err)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestComposeSecrets: the file holds no secret, and does not start without.
func TestComposeSecrets(t *testing.T) {
	t.Parallel()
	for missing, given := range map[string]string{"PERDURE_KEY": "POSTGRES_PASSWORD=p", "POSTGRES_PASSWORD": "PERDURE_KEY=k"} {
		if _, err := compose(t, given); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: got %v", missing, err)
		}
	}
	text, err := os.ReadFile("../../docker-compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^.*(PASSWORD|PWD|KEY)"?: .*$`).FindAllString(string(text), -1) {
		if !strings.Contains(line, "${") {
			t.Errorf("a secret stands in the file: %s", strings.TrimSpace(line))
		}
	}
}

func compose(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	file, err := filepath.Abs("../../docker-compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	options, err := cli.NewProjectOptions([]string{file}, cli.WithName("perdure"), cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}
