// Package starlark runs Starlark within bounds of memory and time.
//
// The interpreter of go.starlark.net counts steps and does not count memory: a
// single step can fill it, as "x" * 10**9 does. So before a program is compiled,
// what could allocate or take long in one step (an operator, a slice, a method)
// is replaced in the tree by a function that charges an [Account] first; see
// bound.go. Dicts are this package's own, since the interpreter's can be made
// slow by chosen keys. Sets and bytes are left out, and of the modules math and
// time what depends on the processor or the machine.
//
//	source ──parse──► tree ──bound──► tree whose operators are charged ──► Program
//	Program + what a host adds ──Execution──► JSON, or an error with a stack
//
// A host names its own functions in a [Language]; [Language.Compile] checks a
// program and reports, without running it, which of them it calls, and which
// names only the host can give a meaning. An [Execution] runs a program on
// threads that take turns, and asks the host now and then whether they may continue.
//
// Two executions of a program that get the same values from the host do the same
// in the same order: nothing depends on the clock, on chance, on the machine or
// on the order of a map.
package starlark
