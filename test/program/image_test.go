package program_test

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// mostOfImage bounds the program of the image, in bytes.
const mostOfImage = 60 << 20

// TestImage builds the program as deploy/Dockerfile does, and shows that it needs
// nothing of the image that it is put into, has no Temporal server in it, says so
// where one is wanted, and does what it is for: to be a gateway and a worker.
func TestImage(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "perdure")
	build := exec.Command("sh", "-ec", imageBuild(t, program))
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binary := perduretest.Must(elf.Open(program))(t)
	defer binary.Close()
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 || binary.Section(".interp") != nil {
		t.Errorf("it is not static: it wants %v, %v", libraries, err)
	}
	info := perduretest.Must(buildinfo.ReadFile(program))(t)
	for _, module := range info.Deps {
		if module.Path == "go.temporal.io/server" || strings.HasPrefix(module.Path, "github.com/temporalio/ui-server") {
			t.Errorf("it has %s in it", module.Path)
		}
	}
	if size, err := os.Stat(program); err != nil || size.Size() > mostOfImage {
		t.Errorf("it has %d bytes, %v", size.Size(), err)
	}
	for args, want := range map[string]string{"version": "perdure v1.2.3-image", "dev --listen x": "no embedded Temporal", "--help": "perdure serve"} {
		command := exec.Command(program, strings.Fields(args)...)
		command.Env = []string{}
		if out, err := command.CombinedOutput(); !strings.Contains(string(out), want) || (err != nil) != strings.HasPrefix(args, "dev") {
			t.Errorf("%s says %s, %v", args, out, err)
		}
	}
	t.Run("roles", func(t *testing.T) { runAsRoles(t, program) })
}

// imageBuild is the command with which deploy/Dockerfile builds the program,
// which is put elsewhere.
func imageBuild(t *testing.T, program string) string {
	t.Helper()
	file := perduretest.Read(t, "../../deploy/Dockerfile")
	found := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 GOOS=\$TARGETOS GOARCH=\$TARGETARCH go build .*)-o /perdure (\./cmd/perdure)$`).FindStringSubmatch(string(file))
	if found == nil {
		t.Fatal("deploy/Dockerfile does not build ./cmd/perdure")
	}
	return "VERSION=v1.2.3-image; " + found[1] + "-o " + program + " " + found[2]
}

// runAsRoles has a gateway and a worker make a call, beside a Temporal.
func runAsRoles(t *testing.T, program string) {
	r := prepareReplicas(t, newTemporal(t), "image")
	gateway, worker := r.gateways[0], r.workers[0]
	gateway.build, worker.build = program, program
	worker.start()
	gateway.start()
	if out, err := exec.Command(program, "ready", "--url", "http://"+gateway.address).CombinedOutput(); err != nil {
		t.Errorf("it is not ready: %v: %s", err, out)
	}
	if out, err := exec.Command(program, "call", "review", "key=image", "--answer", "accept", "--content", `{"verdict":"yes"}`,
		"--url", "http://"+gateway.address+"/mcp").CombinedOutput(); err != nil || !strings.Contains(string(out), "image:yes") {
		t.Errorf("a call gives %s, %v", out, err)
	}
	gateway.stop(os.Interrupt, patience)
	worker.stop(os.Interrupt, patience)
}
