package auth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/perduretest"
)

const (
	aliceToken = "alice-token-0123456789"
	robotToken = "robot-token-0123456789"
)

func sum(token string) string {
	digest := sha256.Sum256([]byte(token))
	return hex.EncodeToString(digest[:])
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	perduretest.NoError(t, os.WriteFile(name, []byte(text), mode))
}

// TestTokenFile: whose token it is, by its digest or from the environment, and
// that a changed file is read again.
func TestTokenFile(t *testing.T) {
	t.Setenv("PERDURE_TEST_ROBOT", robotToken)
	name := filepath.Join(t.TempDir(), "tokens.yaml")
	alice := fmt.Sprintf("tokens:\n  - subject: alice\n    groups: [dev]\n    sha256: %s\n", sum(aliceToken))
	write(t, name, alice+"  - {subject: robot, env: PERDURE_TEST_ROBOT}\n", 0o600)
	var log bytes.Buffer
	f := perduretest.Must(auth.OpenTokenFile(name, logTo(&log)))(t)
	who, err := f.Authenticate(withToken(aliceToken))
	if err != nil || who.Caller() != "alice" || !slices.Equal(who.Groups, []string{"dev"}) {
		t.Errorf("alice is %+v, %v", who, err)
	}
	if who, err := f.Authenticate(withToken(robotToken)); err != nil || who.Subject != "robot" {
		t.Errorf("the robot is %+v, %v", who, err)
	}
	for what, r := range map[string]string{"no token": "", "unknown token": "x" + aliceToken, "the digest itself": sum(aliceToken)} {
		status, challenge, _ := refused(t, second(f.Authenticate(withToken(r))))
		if status != 401 || !strings.HasPrefix(challenge, "Bearer") || (r != "") != strings.Contains(challenge, `error="invalid_token"`) {
			t.Errorf("%s: %d %q", what, status, challenge)
		}
	}

	write(t, name, "tokens: [{subject: alice, sha256: secret-in-the-wrong-place}]\n", 0o600)
	f.LookAgain()
	if _, err := f.Authenticate(withToken(aliceToken)); err != nil {
		t.Errorf("a bad file replaced a good one: %v", err)
	}
	write(t, name, alice, 0o600)
	f.LookAgain()
	if _, err := f.Authenticate(withToken(robotToken)); err == nil {
		t.Error("a token that was taken out of the file is still good")
	}
	perduretest.NoError(t, os.Remove(name))
	f.LookAgain()
	if _, err := f.Authenticate(withToken(aliceToken)); err != nil {
		t.Errorf("without the file: %v", err)
	}
	if !strings.Contains(log.String(), "earlier tokens stay valid") || strings.Contains(log.String(), "secret-in") || strings.Contains(log.String(), aliceToken) {
		t.Errorf("log:\n%s", log.String())
	}
}

func TestTokenFileMode(t *testing.T) {
	t.Parallel()
	for mode, warns := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o644: true, 0o620: true} {
		name := filepath.Join(t.TempDir(), "tokens.yaml")
		write(t, name, "tokens: []\n", mode)
		perduretest.NoError(t, os.Chmod(name, mode))
		var log bytes.Buffer
		if _, err := auth.OpenTokenFile(name, logTo(&log)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "chmod 600") != warns {
			t.Errorf("mode %o: %q", mode, log.String())
		}
	}
}

// TestTokenFileMistakes: each is refused with its place, and without what
// stands there.
func TestTokenFileMistakes(t *testing.T) {
	t.Parallel()
	one := sum(aliceToken)
	for text, want := range map[string]string{
		"":            "tokens is missing",
		"tokens":      "not YAML of the form",
		"token: []\n": "not YAML of the form",
		"tokens:\n  - {subject: a, token: s3cret-s3cret-s3cret}\n":                       "not YAML of the form",
		"tokens: [{sha256: " + one + "}]":                                                "tokens[0]: subject is missing",
		"tokens: [{subject: anonymous, sha256: " + one + "}]":                            "tokens[0]: subject",
		"tokens: [{subject: 'https://x#a', sha256: " + one + "}]":                        "tokens[0]: subject",
		"tokens: [{subject: a}]":                                                         "one of sha256 and env",
		"tokens: [{subject: a, sha256: " + one + ", env: X}]":                            "one of sha256 and env",
		"tokens: [{subject: a, sha256: s3cret}]":                                         "64 hexadecimal digits",
		"tokens: [{subject: a, sha256: " + one + "00}]":                                  "64 hexadecimal digits",
		"tokens: [{subject: a, env: PERDURE_TEST_UNSET}]":                                "PERDURE_TEST_UNSET has no token",
		"tokens: [{subject: a, sha256: " + one + "}, {subject: b, sha256: " + one + "}]": "tokens[1]: b has the same token as a",
	} {
		name := filepath.Join(t.TempDir(), "tokens.yaml")
		write(t, name, text, 0o600)
		_, err := auth.OpenTokenFile(name, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := auth.OpenTokenFile(filepath.Join(t.TempDir(), "none"), nil); err == nil || !strings.Contains(err.Error(), "cannot read token file") {
		t.Errorf("no file: %v", err)
	}
}
