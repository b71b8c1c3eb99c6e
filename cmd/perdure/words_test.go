package main

import (
	"slices"
	"strings"
	"testing"
)

// A command for keys is split as a shell splits words, and needs no shell: an image
// without one has it, too.
func TestSplitWords(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"aws kms decrypt --key-id  a": {"aws", "kms", "decrypt", "--key-id", "a"},
		`sh -c 'echo "a:$KEY" | cat'`: {"sh", "-c", `echo "a:$KEY" | cat`},
		`a "b \"c\" \d" '' e\ f\\`:    {"a", `b "c" \d`, "", `e f\`},
		"\tvault\nkv get 'a'b\"c\"":   {"vault", "kv", "get", "abc"},
		"a 'b":                        nil, `a "b`: nil, `a \`: nil, " ": nil, "''": nil,
	} {
		got, err := splitWords(command)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%s: %q, %v, want %q", command, got, err, want)
		}
	}
}

// The command is started without a shell.
func TestPayloadKeyCommand(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	key := strings.Repeat("0a", 32)
	keys, err := payloadFlags{PayloadKeyCommand: "printf '%s:%s' first " + key}.keys(t.Context())
	if err != nil || keys == nil {
		t.Errorf("%v, %v", keys, err)
	}
	if _, err := (payloadFlags{PayloadKeyCommand: "printf a; printf b"}).keys(t.Context()); err == nil {
		t.Error("a line of a shell was taken")
	}
}
