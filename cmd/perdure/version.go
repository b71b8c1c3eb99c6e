package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the build: -ldflags "-X main.version=…".
var version string

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

type versionCommand struct{}

func (versionCommand) Help() string { return "Example:\n\n    perdure version" }

func (versionCommand) Run(c *console) error {
	_, err := fmt.Fprintf(c.out, "perdure %s (%s, %s/%s)\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
