package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestCookbook validates the files of docs/cookbook.md, those of servers that tests
// cannot start against the names and types of their tools.
func TestCookbook(t *testing.T) {
	for _, name := range []string{"GITHUB_TOKEN", "SLACK_BOT_TOKEN", "SLACK_TEAM_ID", "ATLASSIAN_SITE_NAME", "ATLASSIAN_USER_EMAIL", "ATLASSIAN_API_TOKEN"} {
		t.Setenv(name, "secret")
	}
	page := perduretest.Read(t, "../../docs/cookbook.md")
	pinned := map[string]string{"files": "", "github": "github", "slack": "slack", "jira": "jira", "reports": "postgres", "cluster": "kubernetes"}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != len(pinned) {
		t.Errorf("%d files, want %d", len(blocks), len(pinned))
	}
	for _, block := range blocks {
		name := regexp.MustCompile(`^name: (\w+)\n`).FindStringSubmatch(block[1])[1]
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "perdure.yaml")
			perduretest.NoError(t, os.WriteFile(file, []byte(block[1]), 0o600))
			args := []string{"validate", "--strict", "--config", file}
			if tools := pinned[name]; tools != "" {
				args = append(args, "--against", "../../test/program/testdata/cookbook/"+tools+".json")
			}
			var out strings.Builder
			c := &console{in: strings.NewReader(""), exact: &out}
			c.out, c.err = view.NewWriter(&out, nil), view.NewWriter(&out, nil)
			if status := run(t.Context(), args, c); status != 0 {
				t.Errorf("status %d\n%s", status, out.String())
			}
		})
	}
}

// TestTroubleshooting holds the messages of docs/troubleshooting.md against what the
// source can print.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, dir := range []string{".", "../../definitions", "../../gateway", "../../internal", "../../workflows"} {
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page := perduretest.Read(t, "../../docs/troubleshooting.md")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 15 {
		t.Errorf("%d messages", len(rows))
	}
	code := strings.NewReplacer(`\"`, `"`).Replace(source.String())
	placeholder := regexp.MustCompile(`…|"[xy]"|\(PID\)|\b(NAME|URL|T|S|X)\b`)
	for _, row := range rows {
		for _, part := range placeholder.Split(row[1], -1) {
			if part = strings.Trim(part, " ,:()"); len(part) > 5 && !strings.Contains(code, part) {
				t.Errorf("%q: nothing prints %q", row[1], part)
			}
		}
	}
}
