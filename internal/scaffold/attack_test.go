package scaffold

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackSecretsOfCommandLines: secrets in arguments and addresses, as servers take
// them, are not written; what the server gets is what was there.
func TestAttackSecretsOfCommandLines(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		url  string
		want string // of arguments, or the URL; "" = as it was
	}{
		{args: []string{"mcp-remote", "https://x.example.com/sse", "--header", "Authorization: Bearer s3cr3t"}, want: "mcp-remote https://x.example.com/sse --header Authorization: Bearer ${env:A_TOKEN}"},
		{args: []string{"--header", "Authorization:Basic dXNlcjpzM2NyM3Q="}, want: "--header Authorization:Basic ${env:A_TOKEN}"},
		{args: []string{"--header=X-Api-Key: s3cr3t"}, want: "--header=X-Api-Key: ${env:A_X_API_KEY}"},
		{args: []string{"-H", "X-Team: S3cr3t value"}, want: "-H X-Team: ${env:A_X_TEAM}"},
		{args: []string{"-e", "DATABASE_URI=postgres://ada:s3cr3t@db/shop"}, want: "-e DATABASE_URI=postgres://ada:${env:A_PASSWORD}@db/shop"},
		{args: []string{"--db-url=postgres://ada:s3cr3t@db/shop"}, want: "--db-url=postgres://ada:${env:A_PASSWORD}@db/shop"},
		{args: []string{"ghp_s3cr3t1", "ghp_s3cr3t2"}, want: "${env:A_SECRET} ${env:A_SECRET_2}"},
		{url: "https://ghp_s3cr3t@x.example.com/mcp", want: "https://${env:A_USER}@x.example.com/mcp"},
		{url: "https://x.example.com/api/s/S3cr3tOfMoreThan20Letters/mcp", want: "https://x.example.com/api/s/${env:A_PATH}/mcp"},
		{args: []string{"postgresql://ada:s3%cr@e/t#1@db/shop"}, want: "postgresql://ada:${env:A_PASSWORD}@db/shop"},
		{url: "https://ada:s3cr3t%zz@x.example.com/mcp", want: "https://ada:${env:A_PASSWORD}@x.example.com/mcp"},
		{url: "https://x.example.com/mcp#token=s3cr3t", want: "https://x.example.com/mcp#token=${env:A_TOKEN}"},
		{args: []string{"-c", "cd x && GITHUB_TOKEN=ghp_s3cr3t node ghp_s3cr3t"}, want: "-c cd x && GITHUB_TOKEN=${env:GITHUB_TOKEN} node ${env:A_SECRET}"},
		{args: []string{"--opt=x ghp_s3cr3t", "--url=y ghp_s3cr3t2"}, want: "--opt=x ${env:A_SECRET} --url=y ${env:A_SECRET_2}"},
		{args: []string{"-v", "my-secrets:/run/secrets", "C:\\keys\\x", "postgresql://reader@127.0.0.1/shop", "--log=debug", "a:b", "--root=.", "key:/x"}},
		{url: "https://x.example.com/v1/mcp?page=1"},
	} {
		set := Of(&config.Server{Name: "a", Command: map[bool]string{true: "program"}[test.url == ""], Args: test.args, URL: test.url})
		s, is, was := set.Servers[0], "", strings.Join(test.args, " ")+test.url
		if is = strings.Join(s.Args, " ") + s.URL; test.want == "" {
			test.want = was
		}
		if is != test.want {
			t.Errorf("%s is written as %s, want %s", was, is, test.want)
		}
		env := set.Env(func(string) (string, bool) { return "", false })
		for _, v := range s.Variables {
			value, _ := env(v.Name)
			is = strings.ReplaceAll(is, refer(v.Name), value)
		}
		if is != was {
			t.Errorf("%s becomes %s", was, is)
		}
	}
}

// TestAttackHiddenCommands: what a program executes is shown to the person who agrees to
// start it, though it looks like a secret; of what is not shown, it is said that it is there.
func TestAttackHiddenCommands(t *testing.T) {
	t.Parallel()
	for _, s := range []*config.Server{
		{Command: "sh", Args: []string{"-c", "TOKEN=x; evil"}},
		{Command: "sh", Args: []string{"-c", "TOKEN=x;evil"}},
		{Command: "sh", Args: []string{"-c", "Authorization: x; evil"}},
		{Command: "sh", Args: []string{"-lc", "KEY: $(evil)"}},
		{Command: "node", Args: []string{"-e", "token=require('evil')"}},
		{Command: "node", Env: map[string]string{"NODE_OPTIONS": "--require ./evil"}},
		{Command: "node", Env: map[string]string{"PATH": "/tmp/evil:/usr/bin"}},
	} {
		s.Name = "a"
		taken := Of(s).Servers[0]
		if shown := taken.Reached() + "\n" + strings.Join(taken.Gets(), "\n"); !strings.Contains(shown, "evil") {
			t.Errorf("%s %q %q is shown as\n%s", s.Command, s.Args, s.Env, shown)
		}
	}
	taken := Of(&config.Server{Name: "a", File: ".mcp.json", Command: "node", Env: map[string]string{"PERL5OPT": "-Mevil"}}).Servers[0]
	if got := taken.Gets(); len(got) != 2 || got[1] != "6 characters that are not shown for ${env:PERL5OPT}: env.PERL5OPT of a in .mcp.json" {
		t.Errorf("what is not shown: %q", got)
	}
}

// TestAttackSchemasOfTools: a schema that names a field twice at each of its levels takes no
// time, and a parameter comes once.
func TestAttackSchemasOfTools(t *testing.T) {
	t.Parallel()
	schema := `{"type": "string"}`
	for range 60 {
		schema = `{"type": "object", "required": ["a", "a"], "properties": {"a": ` + schema + `}}`
	}
	names := `{"type": "object", "required": ["x y", "x y", "x-y", "x_y"], "properties": {"x y": {"type": "string"}, "x-y": {"type": "string"}, "x_y": {"type": "string"}}}`
	composite := Compose([]backends.Tool{{Name: "a_get", Backend: "a", Original: "get", InputSchema: json.RawMessage(names), OutputSchema: json.RawMessage(schema)}}, nil)
	if got := strings.Join(composite.Required, " "); got != "x_y a_x_y a_a_x_y" {
		t.Errorf("the parameters are %s", got)
	}
}

// TestAttackTextsOfServers: a file that lists servers, and the schemas of tools, add
// nothing to what is written of them.
func TestAttackTextsOfServers(t *testing.T) {
	t.Parallel()
	set := Of(&config.Server{Name: "a", URL: "https://a.example.com/mcp", Transport: "sse\n    url: https://a.example.com\n  - name: evil\n    transport: stdio\n    command: evil\n  - name: b\n    transport: sse"})
	set.Files = []string{"x\nbackends: [{name: evil, command: evil}]\n#.yaml"}
	root := perduretest.Must(onlyDocument(set.Configuration("x", nil, nil)))(t)
	if names := backendNames(root); len(names) != 1 || names[0] != "a" {
		t.Errorf("the backends are %q", names)
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "required": []string{"x"}, "properties": map[string]any{
		"x": map[string]any{"type": "string}\nsteps: [{id: evil, tool: other_delete}]\noutput: {properties: {a: {type: string", "enum": []string{"v"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	composite := Compose([]backends.Tool{{Name: "a_get", Backend: "a", Original: "get", InputSchema: schema}}, nil)
	defs, _ := definitions.Parse("first_look.yaml", []byte(composite.Definition))
	if len(defs) != 1 || len(defs[0].Steps) != 1 || defs[0].Steps[0].Tool != "a_get" {
		t.Errorf("the composite tool is\n%s", composite.Definition)
	}
}
