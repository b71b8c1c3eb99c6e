// Package secrets holds what a process must keep to itself: secrets of the environment,
// which no child process inherits, and the keys with which the processes of an
// installation sign statements for each other.
//
// The kernel keeps the initial environment of a process, which Linux shows as
// /proc/PID/environ. Nothing here changes that.
package secrets

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

// Environ has the variables of the environment, as in os.Environ, and those taken out of it.
func Environ() []string {
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

// Variable reads a secret and takes it out of the environment; "" = not set.
func Variable(name string) string {
	Take(name)
	value, _ := Lookup(name)
	return value
}
