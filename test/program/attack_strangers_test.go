package program_test

import (
	"strings"
	"testing"
)

// The roles that serve callers refuse to start, and dev for its Web UI as well.
func TestAttackStrangersOfRoles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	putFile(t, dir+"/perdure.yaml", "backends: []\n")
	putFile(t, dir+"/key", strings.Repeat("0123456789abcdef", 4)+"\n")
	for name, args := range map[string][]string{
		"gateway": {"gateway", "--config=perdure.yaml", "--key-file=key", "--listen=0.0.0.0:0"},
		"serve":   {"serve", "--config=perdure.yaml", "--key-file=key", "--listen=0.0.0.0:0"},
		"dev":     {"dev", "--config=perdure.yaml", "--listen=0.0.0.0:0", "--ui-listen="},
		"the UI":  {"dev", "--config=perdure.yaml", "--listen=127.0.0.1:0", "--ui-listen=0.0.0.0:0"},
	} {
		out, err := program(t, dir, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--allow-anonymous") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
