// Package environ takes what a process gets from where it runs: secrets of the
// environment, which no program that it starts inherits, and the memory that it may
// use, which it hides from other processes.
//
// The kernel keeps the environment with which a process was started, where Linux
// shows it as /proc/PID/environ. Nothing here changes that; see Conceal.
package environ

import (
	"os"
	"sync"
)

var (
	mu    sync.Mutex
	taken = map[string]string{}
)

// Take takes variables out of the environment; Lookup has them from then on.
func Take(names ...string) {
	mu.Lock()
	defer mu.Unlock()
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			taken[name] = value
			_ = os.Unsetenv(name) // fails for names that cannot be set
		}
	}
}

// Lookup reads a variable of the environment, or one that was taken out of it.
func Lookup(name string) (string, bool) {
	if value, ok := os.LookupEnv(name); ok {
		return value, true
	}
	mu.Lock()
	defer mu.Unlock()
	value, ok := taken[name]
	return value, ok
}

// All are the variables of the environment, as os.Environ has them, and those that
// were taken out of it.
func All() []string {
	all := os.Environ()
	mu.Lock()
	defer mu.Unlock()
	for name, value := range taken {
		if _, ok := os.LookupEnv(name); !ok {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// Secret reads a secret and takes it out of the environment; "" = not set.
func Secret(name string) string {
	Take(name)
	value, _ := Lookup(name)
	return value
}
