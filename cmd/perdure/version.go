package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by the build: -ldflags "-X main.version=… -X main.commit=…".
var version, commit string

// programVersion is the version that was built, else that of the module.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// programCommit is the commit that was built, cut to what tells it apart; "" = not known,
// as in what go install builds of a released module.
func programCommit() string {
	revision := commit
	if info, ok := debug.ReadBuildInfo(); ok && revision == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return revision[:min(len(revision), 12)]
}

type versionCommand struct{}

func (versionCommand) Help() string { return "Example:\n\n    perdure version" }

func (versionCommand) Run(c *console) error {
	about := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if revision := programCommit(); revision != "" {
		about = append([]string{"commit " + revision}, about...)
	}
	if !hasDev {
		about = append(about, "without dev")
	}
	_, err := fmt.Fprintf(c.out, "perdure %s (%s)\n", programVersion(), strings.Join(about, ", "))
	return err
}
