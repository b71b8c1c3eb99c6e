//go:build !linux

package environ

// DumpableVar set to anything leaves the process open to debuggers of its user.
const DumpableVar = "PERDURE_DUMPABLE"

// Conceal does nothing: only Linux has a switch that needs no privileges.
func Conceal() error { return nil }
