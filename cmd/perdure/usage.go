package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// meantCommands are commands, by what they are called elsewhere.
var meantCommands = map[string][]string{
	"call":         {"run", "exec", "execute", "invoke"},
	"dev":          {"start", "up", "server", "daemon"},
	"init":         {"new", "create", "generate", "scaffold", "setup"},
	"backend add":  {"add", "install"},
	"validate":     {"lint", "check", "verify"},
	"publish":      {"deploy", "release", "push"},
	"runs list":    {"ps", "list", "ls", "jobs"},
	"runs show":    {"show", "get", "describe", "inspect"},
	"runs logs":    {"logs", "log", "events"},
	"runs answer":  {"approve", "answer", "accept", "decline"},
	"runs cancel":  {"cancel", "stop", "kill", "abort"},
	"runs resume":  {"resume", "retry", "rerun", "restart"},
	"doctor":       {"status", "health", "diagnose", "info"},
	"tools show":   {"tool"},
	"backend repo": {"repo"},
}

// meantFlags are flags and their like, by what they are called elsewhere, where a command
// has them.
var meantFlags = map[string][]string{
	"--against":     {"--url", "--server", "--endpoint"},
	"--url":         {"--against", "--server", "--endpoint"},
	"--listen":      {"--port", "--host", "--address", "--bind", "-p"},
	"--config":      {"-c", "-f", "--file"},
	"--definitions": {"--dir", "--tools", "-d"},
	"--log-level":   {"--verbose", "--debug", "-v"},
	"--output":      {"--json", "--format"},
	"--yes":         {"--force", "-f", "--non-interactive"},
}

var (
	// unknownWord matches kong's error for a command, argument or flag that does not exist.
	unknownWord = regexp.MustCompile(`^unexpected argument ([^,\s]+)|^unknown flag ([^,\s]+)`)
	// wrongArgument matches kong's error for an argument that is none of some words.
	wrongArgument = regexp.MustCompile(`^\[(<[^>]+>)\] must be one of (.*) but got `)
)

// wrongUsage says what is wrong with a command line, and where help is.
func wrongUsage(err error) error {
	var parse *kong.ParseError
	message := strings.Replace(err.Error(), `one of "",`, "one of ", 1) // "" = not given
	if !errors.As(err, &parse) || parse.Context.Selected() == nil {
		message = strings.Replace(cmp.Or(meantGroup(message, parse), meantWord(message, nil), message), "unexpected argument", "unknown command", 1)
		return usagef("%s; see perdure --help", message)
	}
	at := parse.Context.Selected()
	message = wrongArgument.ReplaceAllString(message, "$1 must be one of $2, not ")
	message = cmp.Or(missingArgument(message, at), meantWord(message, at), message)
	return usagef("%s; see %s --help", message, at.FullPath())
}

// meantGroup is a message about a group of commands in the singular, such as "run list",
// with the command that is meant; "" = it is none.
func meantGroup(message string, parse *kong.ParseError) string {
	m := unknownWord.FindStringSubmatch(message)
	if m == nil || parse == nil {
		return ""
	}
	at := slices.Index(parse.Context.Args, m[1])
	for _, group := range parse.Context.Model.Children {
		for _, command := range group.Children {
			if at >= 0 && at+1 < len(parse.Context.Args) && group.Name == m[1]+"s" && command.Name == parse.Context.Args[at+1] {
				return fmt.Sprintf("%s, did you mean %q?", m[0], group.Name+" "+command.Name)
			}
		}
	}
	return ""
}

// meantWord is a message about a word that a command does not know, at which nil is the
// program, with the one that is meant; "" = not known.
func meantWord(message string, at *kong.Node) string {
	m := unknownWord.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	meant := ""
	switch word := m[1] + m[2]; {
	case at == nil && m[1] != "":
		meant = firstKey(meantCommands, word, func(string) bool { return true })
	case at == nil:
	case m[2] != "":
		meant = firstKey(meantFlags, word, func(name string) bool { return flagOf(at, strings.TrimPrefix(name, "--")) != nil })
		if meant == "" && at.Name == "call" && (!strings.Contains(message, "did you mean") || word == "--arg") {
			return m[0] + ": write arguments of the tool as NAME=VALUE"
		}
	case flagOf(at, "definitions") != nil && flagOf(at, "config") != nil:
		return fmt.Sprintf("%s: write --config %s for a configuration, --definitions %[2]s for definitions", m[0], word)
	}
	if meant == "" {
		return ""
	}
	return fmt.Sprintf("%s, did you mean %q?", m[0], meant)
}

// firstKey is the first key, in order, that has a word and is usable; "" = none.
func firstKey(table map[string][]string, word string, usable func(string) bool) string {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if slices.Contains(table[key], word) && usable(key) {
			return key
		}
	}
	return ""
}
