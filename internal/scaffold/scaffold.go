// Package scaffold makes the first files of an installation out of what people have:
// a configuration of their MCP servers, effect classes proposed for the tools, and a
// composite tool with its test.
//
// It reads and writes no file but those that list servers, and starts nothing.
package scaffold

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
)

// A Variable of the environment is where a server gets a secret from, or a value that
// its file refers to.
type Variable struct {
	Name  string          `json:"name"`
	Where string          `json:"where"` // what it was in the file
	Value backends.Secret `json:"-"`     // that the file has; "" = the file refers to the variable
}

// A Server is a server that is taken over. It holds no secret: these are variables.
type Server struct {
	config.Server
	Variables []Variable
}

// A Set is servers of several files. Their names are distinct.
type Set struct {
	Servers []*Server
	Files   []string // in which they are
	Notes   []string // what was left out, and why
}

// Read reads the servers of files. A server that has the name of an earlier one is
// left out, and so is perdure itself, which clients list among theirs.
func Read(files []string) (*Set, definitions.Diagnostics) {
	set := &Set{}
	var all definitions.Diagnostics
	for _, file := range files {
		servers, diags := config.ReadServers(file)
		all = append(all, diags...)
		for _, s := range servers {
			set.add(s)
		}
	}
	return set, all
}

// Of is a set of one server.
func Of(s *config.Server) *Set {
	set := &Set{}
	s.Name = usableName(s.Name)
	set.Servers = append(set.Servers, set.conceal(s))
	return set
}

func (set *Set) add(s *config.Server) {
	s.Name = usableName(s.Name)
	same := slices.IndexFunc(set.Servers, func(other *Server) bool { return other.Name == s.Name })
	switch {
	case isPerdure(s):
		set.Notes = append(set.Notes, "left out "+s.Name+" of "+s.File+": it is perdure itself")
	case same >= 0:
		set.Notes = append(set.Notes, "left out "+s.Name+" of "+s.File+": "+set.Servers[same].File+" has a server of that name")
	default:
		set.Servers = append(set.Servers, set.conceal(s))
		if !slices.Contains(set.Files, s.File) {
			set.Files = append(set.Files, s.File)
		}
	}
}

// Env reads the environment as it will be: with the variables of the servers. What is
// set nowhere is empty.
func (set *Set) Env(environment func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, s := range set.Servers {
			for _, v := range s.Variables {
				if v.Name == name && v.Value != "" {
					return string(v.Value), true
				}
			}
		}
		value, _ := environment(name)
		return value, true
	}
}

// Missing gives the variables that are not set in an environment, in order, once each.
func (set *Set) Missing(environment func(string) (string, bool)) (missing []Variable) {
	for _, s := range set.Servers {
		for _, v := range s.Variables {
			_, ok := environment(v.Name)
			if !ok && !slices.ContainsFunc(missing, func(m Variable) bool { return m.Name == v.Name }) {
				missing = append(missing, v)
			}
		}
	}
	return missing
}

// Reached is how a server is reached: its command line or its URL.
func (s *Server) Reached() string {
	if s.IsProcess() {
		return strings.Join(append([]string{s.Command}, s.Args...), " ")
	}
	return s.URL
}

// Gets are what a server is given besides: its directory, variables and headers, with
// references in place of what is secret, and for which of them its file has a value.
func (s *Server) Gets() (all []string) {
	if s.Dir != "" {
		all = append(all, "directory "+s.Dir)
	}
	for _, name := range s.PassEnv {
		all = append(all, "variable "+name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		all = append(all, "variable "+name+"="+s.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		all = append(all, "header "+name+": "+s.Headers[name])
	}
	if s.Auth != nil {
		all = append(all, "credentials of outgoingAuth")
	}
	for _, v := range s.Variables {
		if v.Value != "" {
			all = append(all, fmt.Sprintf("%d characters that are not shown for %s: %s", utf8.RuneCountInString(string(v.Value)), refer(v.Name), v.Where))
		}
	}
	return all
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// usableName makes the name of a backend, with which those of its tools begin.
func usableName(name string) string {
	return cmp.Or(strings.Trim(unusual.ReplaceAllString(name, "-"), "-"), "server")
}

// isPerdure reports whether a server is a perdure: what MCP clients start or call.
func isPerdure(s *config.Server) bool {
	program := strings.TrimSuffix(filepath.Base(s.Command), ".exe")
	starts := program == "perdure" && slices.ContainsFunc(s.Args, func(arg string) bool { return arg == "dev" })
	return starts || strings.HasSuffix(s.URL, ":4483/mcp")
}
