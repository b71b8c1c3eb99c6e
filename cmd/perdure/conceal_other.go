//go:build !linux

package main

// dumpableVar set to anything leaves the process open to debuggers of its user.
const dumpableVar = "PERDURE_DUMPABLE"

// conceal does nothing: only Linux has a switch that needs no privileges.
func conceal() error { return nil }
