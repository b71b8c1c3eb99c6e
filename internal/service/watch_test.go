package service

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestFilesThatDoNotAnswer: files whose file system does not answer are told of, and do
// not keep the service from ending.
func TestFilesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	told := make(chan error, 2)
	w := fileWatch{most: 10 * time.Millisecond, stuck: func(err error) { told <- err }}
	answers, taken := make(chan struct{}), false
	go func() {
		if err := <-told; err == nil {
			t.Error("nothing is told of files that cannot be read")
		}
		close(answers)
	}()
	hangs := func() func() { <-answers; return func() { taken = true } }
	if !w.inTime(t.Context(), hangs) || !taken || <-told != nil {
		t.Error("files that answer late are not taken")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if w.inTime(ctx, func() func() { <-t.Context().Done(); return func() {} }) {
		t.Error("files that never answer were read")
	}
}

// TestFollowRules: a codec follows the rules of its configuration.
func TestFollowRules(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "perdure.yaml")
	write := func(tool string) {
		text := "backends: [{name: be, transport: streamable-http, url: 'http://127.0.0.1:1/mcp'}]\nauthorization: {rules: [{tools: [" + tool + "], groups: ['*']}]}\n"
		perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("get")
	src := config.Sources{Config: file, CallersOnly: true}
	loaded, diags := config.Load(src)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	loaded.Auth.Policy.Exchangeable()
	policy := &loaded.Auth.Policy
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		FollowRules(ctx, src, loaded, slog.New(slog.DiscardHandler))
	}()
	may := func(tool string) bool {
		return policy.May(auth.Identity{Subject: auth.Anonymous}, auth.Call, auth.Object{Tool: tool})
	}
	if !may("get") || may("delete") {
		t.Fatal("the rules of the start do not hold")
	}
	write("delete")
	for deadline := time.Now().Add(20 * time.Second); may("get") || !may("delete"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the rules of now do not hold")
		}
	}
	cancel()
	<-ended
}
