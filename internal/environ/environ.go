// Package environ is what a process has from where it runs: secrets in the environment,
// which no child process inherits, the limit of its memory, which it hides from other
// processes, and the lock of a data directory.
//
// The kernel keeps the initial environment of a process, which Linux shows as
// /proc/PID/environ. Nothing here changes that; see Conceal.
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
			_ = os.Unsetenv(name) // fails for invalid names
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

// All are the variables of the environment, as in os.Environ, and those taken out of it.
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
