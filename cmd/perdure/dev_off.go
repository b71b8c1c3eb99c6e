//go:build nodev

package main

// devCommands has no dev where it is built without the embedded Temporal.
type devCommands struct{}
