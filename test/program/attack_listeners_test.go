//go:build linux

package program_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// TestAttackListeners: a process listens where it says and nowhere else, and what
// listens there answers no page that had its own name point to this machine, and
// none of another site.
func TestAttackListeners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "perdure.yaml"), "backends: []\ntelemetry: {enablePrometheusMetricsPath: true}\n")
	putFile(t, filepath.Join(dir, "key"), strings.Repeat("0123456789abcdef", 4)+"\n")
	putFile(t, filepath.Join(dir, "payload.keys"), "first:"+strings.Repeat("0a", 32)+"\n")
	free := func() string { return freeAddress(t) }

	dev := newDev(t, dir, "--config", "perdure.yaml", "--ui-listen", free(), "--temporal-listen", free(), "--metrics-listen", free())
	dev.env = append(dev.env, "PERDURE_DUMPABLE=1") // its sockets are looked at
	dev.start()
	at := perduretest.Must(readDevFile(filepath.Join(dir, ".perdure")))(t)
	roles := map[string]*process{"dev": &dev.process}
	for role, flags := range map[string][]string{
		"gateway": {"--listen", "--key-file=key", "--metrics-listen=" + free()},
		"worker":  {"--health-listen", "--key-file=key", "--metrics-listen=" + free()},
		"serve":   {"--listen", "--key-file=key", "--metrics-listen=" + free()},
		"codec":   {"--listen", "--payload-key-file=payload.keys", "--ui-origin=http://127.0.0.1:8233"},
	} {
		p := &process{t: t, dir: dir, address: free(), env: append(web.PairEnvironment(temporalKey(".perdure")), "PERDURE_DUMPABLE=1")}
		p.args = append([]string{role, "--config", "perdure.yaml", "--address", at.Temporal, flags[0], p.address}, flags[1:]...)
		roles[role] = p
		p.launch()
	}
	for role, p := range roles {
		until(t, role+" to be alive", func() bool { return alive(p.address) })
		until(t, role+" to say that it is ready", func() bool { return strings.Contains(p.output.String(), "ready") })
		listens, told := sockets(t, p.serving.PID()), announced(p.output.String())
		if len(listens) == 0 {
			t.Errorf("%s listens nowhere, as it seems", role)
		}
		for _, address := range listens {
			if !slices.Contains(told, address) {
				t.Errorf("%s listens on %s and says nothing of it:\n%s", role, address, p.output)
			}
			attackByHTTP(t, role, address)
		}
	}
}

func alive(address string) bool {
	r, err := http.Get("http://" + address + "/healthz")
	if err != nil {
		return false
	}
	r.Body.Close()
	return r.StatusCode == http.StatusOK
}

var hostPort = regexp.MustCompile(`[0-9.]+:[0-9]+|\[[0-9a-f:]+\]:[0-9]+`)

// announced are the addresses that a process has printed.
func announced(output string) []string { return hostPort.FindAllString(output, -1) }

// attackByHTTP does what a page in a browser can do: it sends simple requests, in
// its own name, and in that of an address that was rebound.
func attackByHTTP(t *testing.T, role, address string) {
	t.Helper()
	const signal = `{"batchOperation":{"signalOperation":{"signal":"elicitation-answer"}},"visibilityQuery":"PerdureWaiting='approval'"}`
	client := &http.Client{Timeout: 10 * time.Second}
	for _, path := range []string{"/", "/mcp", "/healthz", "/readyz?verbose", "/metrics", "/approvals", "/api/v1/namespaces/default/batch-operations/1"} {
		for name, header := range map[string][]string{"rebound name": {"Host", "evil.example"}, "page": {"Origin", "https://evil.example"}} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader(signal))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "text/plain")
			if r.Header.Set(header[0], header[1]); header[0] == "Host" {
				r.Host = header[1]
			}
			answer, err := client.Do(r)
			if err != nil {
				continue // it does not speak HTTP
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusForbidden {
				t.Errorf("%s answers a %s at http://%s%s with %s: %.200s", role, name, address, path, answer.Status, text)
			}
		}
	}
}

// sockets are the addresses on which a process takes connections or datagrams,
// as Linux says.
func sockets(t *testing.T, pid int) []string {
	t.Helper()
	own := map[string]bool{}
	descriptors := perduretest.Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	for _, d := range descriptors {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, d.Name()))
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var all []string
	for _, table := range []struct{ file, state string }{{"tcp", "0A"}, {"tcp6", "0A"}, {"udp", "07"}, {"udp6", "07"}} {
		for _, fields := range procTable(t, fmt.Sprintf("/proc/%d/net/%s", pid, table.file)) {
			if len(fields) > 9 && fields[3] == table.state && own[fields[9]] {
				all = append(all, parseAddress(t, fields[1]))
			}
		}
	}
	const listens = 0x10000 // __SO_ACCEPTCON
	for _, fields := range procTable(t, fmt.Sprintf("/proc/%d/net/unix", pid)) {
		if flags, err := strconv.ParseInt(fields[3], 16, 64); err == nil && flags&listens != 0 && own[fields[6]] {
			all = append(all, strings.Join(fields[7:], " "))
		}
	}
	return all
}

func procTable(t *testing.T, file string) (rows [][]string) {
	t.Helper()
	f := perduretest.Must(os.Open(file))(t)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // the head
	for lines.Scan() {
		rows = append(rows, strings.Fields(lines.Text()))
	}
	return rows
}

// parseAddress reads an address as /proc/net has it: words of 32 bits in the
// order of this machine, then the port.
func parseAddress(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	ip := perduretest.Must(hex.DecodeString(host))(t)
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	number := perduretest.Must(strconv.ParseUint(port, 16, 16))(t)
	return net.JoinHostPort(net.IP(ip).String(), fmt.Sprint(number))
}
