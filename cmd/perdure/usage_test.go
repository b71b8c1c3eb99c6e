package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestMeantWords: a command or a flag that is called otherwise elsewhere is answered with
// the one here, which there is.
func TestMeantWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"run mine":            `unknown command run, did you mean "call"?; see perdure --help`,
		"run list":            `unknown command run, did you mean "runs list"?; see perdure --help`,
		"tool show x":         `unknown command tool, did you mean "tools show"?`,
		"call x --anser a":    `unknown flag --anser, did you mean "--answer"?`,
		"call x --word a":     `unknown flag --word: write arguments of the tool as NAME=VALUE; see perdure call --help`,
		"ps":                  `unknown command ps, did you mean "runs list"?`,
		"logs x":              `unknown command logs, did you mean "runs logs"?`,
		"add files":           `unknown command add, did you mean "backend add"?`,
		"start":               `unknown command start, did you mean "dev"?`,
		"bogus":               `unknown command bogus; see perdure --help`,
		"dev --port 80":       `unknown flag --port, did you mean "--listen"?; see perdure dev --help`,
		"validate --url u":    `unknown flag --url, did you mean "--against"?; see perdure validate --help`,
		"call x --server u":   `unknown flag --server, did you mean "--url"?; see perdure call --help`,
		"dev --lisen x":       `unknown flag --lisen, did you mean "--listen"?`,
		"dev x.yaml":          `unexpected argument x.yaml: write --config x.yaml for a configuration, --definitions x.yaml for definitions; see perdure dev --help`,
		"call x --arg a=1":    `unknown flag --arg: write arguments of the tool as NAME=VALUE; see perdure call --help`,
		"runs list --json":    `unknown flag --json, did you mean "--output"?`,
		"definitions diff --": `missing argument <a>`,
	} {
		var errs bytes.Buffer
		c := &console{out: &errs, err: &errs}
		if status := run(t.Context(), strings.Fields(line), c); status != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("perdure %s: status %d, %swant %s", line, status, errs.String(), want)
		}
	}
}

func TestMeantWordsExist(t *testing.T) {
	t.Parallel()
	var cli commandLine
	parser, err := newParser(t.Context(), &cli, &console{out: &bytes.Buffer{}, err: &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	known, flags := map[string]bool{}, map[string]bool{}
	err = kong.Visit(parser.Model, func(n kong.Visitable, next kong.Next) error {
		switch n := n.(type) {
		case *kong.Node:
			known[strings.Join(names(n)[1:], " ")] = true
		case *kong.Flag:
			flags["--"+n.Name] = true
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for command, words := range meantCommands {
		for _, word := range words {
			if !known[command] || known[word] {
				t.Errorf("%s for %s: is a command %v, and the other word %v", command, word, known[command], known[word])
			}
		}
	}
	for flag := range meantFlags {
		if !flags[flag] {
			t.Errorf("no command has the flag %s", flag)
		}
	}
}
