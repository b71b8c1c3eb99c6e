package secrets_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/secrets"
)

// TestAttackInheritedSecrets: a secret that was read is in no environment of what
// the process starts, and can be read again.
func TestAttackInheritedSecrets(t *testing.T) {
	t.Setenv("PERDURE_TEST_SECRET", "hunter2")
	t.Setenv("PERDURE_TEST_TAKEN", "hunter3")
	for range 2 {
		if got := secrets.Variable("PERDURE_TEST_SECRET"); got != "hunter2" {
			t.Errorf("the secret is %q", got)
		}
	}
	secrets.Take("PERDURE_TEST_TAKEN", "PERDURE_TEST_NONE", "")
	if got, ok := secrets.Lookup("PERDURE_TEST_TAKEN"); got != "hunter3" || !ok {
		t.Errorf("what was taken is %q, %v", got, ok)
	}
	if got, ok := secrets.Lookup("PERDURE_TEST_NONE"); got != "" || ok {
		t.Errorf("what is not set is %q, %v", got, ok)
	}
	out := perduretest.Must(exec.Command("env").Output())(t)
	if all := strings.Join(os.Environ(), "\n") + string(out); strings.Contains(all, "hunter") {
		t.Error("a child inherits the secret")
	}
}
