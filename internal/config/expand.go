package config

import (
	"cmp"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/perdure/perdure/internal/backends"
)

// EnvReference matches a variable of the environment in a text: ${env:NAME}, and
// ${env:NAME:-TEXT} with what holds where it is not set or empty.
var EnvReference = regexp.MustCompile(`\$\{env:([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// shellReference matches a variable as a shell and others write it, which is left as it
// is: ${NAME} anywhere, and $NAME where it is the whole text or token.
var shellReference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}|^(?:Bearer )?\$([A-Za-z_][A-Za-z0-9_]*)$`)

const notSet = "environment variable %s is not set: set it where perdure is started"

// expanded gives a text with the values of the variables that it refers to.
func (r *reader) expanded(p keyPath, text string) string {
	if m := shellReference.FindStringSubmatch(text); m != nil {
		r.warnf(p, "environment", "the variable %s is not read here: write ${env:%[1]s}", cmp.Or(m[1], m[2]))
	}
	return EnvReference.ReplaceAllStringFunc(text, func(written string) string {
		m := EnvReference.FindStringSubmatch(written)
		name, hasDefault, otherwise := m[1], m[2] != "", m[3]
		value, ok := r.env(name)
		switch {
		case ok && (value != "" || !hasDefault):
			return value
		case hasDefault:
			return otherwise
		}
		r.errorf(p, "environment", notSet, name)
		return written
	})
}

// atHome gives a path with the home directory in place of ~ at its start, as a shell
// would have it.
func atHome(path string) string {
	if below, ok := strings.CutPrefix(path, "~/"); ok {
		return "${env:HOME}/" + below
	}
	return path
}

// referred are the values of the variables that texts refer to; nil = there are none.
func (r *reader) referred(texts []string) (values []backends.Secret) {
	for _, text := range texts {
		for _, m := range EnvReference.FindAllStringSubmatch(text, -1) {
			if value, ok := r.env(m[1]); ok && value != "" {
				values = append(values, backends.Secret(value))
			}
		}
	}
	return values
}

func (r *reader) arguments(p keyPath, args []string) []string {
	var out []string
	for i, arg := range args {
		out = append(out, r.expanded(p.to(i), arg))
	}
	return out
}

// environment is what a program gets: variables of passEnv, and those of env.
func (r *reader) environment(p keyPath, b *backend) map[string]string {
	env := map[string]string{}
	for i, name := range b.PassEnv {
		value, ok := r.env(name)
		if !ok {
			r.errorf(p.to("passEnv", i), "environment", notSet, name)
		}
		env[name] = value
	}
	for name, value := range b.Env {
		env[name] = r.expanded(p.to("env", name), value)
	}
	return env
}

// headers are those of every request; nil = none.
func (r *reader) headers(p keyPath, b *backend) backends.Headers {
	if len(b.Headers) == 0 {
		return nil
	}
	if b.isProcess() {
		r.errorf(p, "backends", "belongs to transport streamable-http or sse; give the process its credentials by env or passEnv")
	}
	headers := backends.Headers{}
	for name, value := range b.Headers {
		at := p.to(name)
		r.headerName(at, name)
		expanded := r.expanded(at, value)
		if !httpguts.ValidHeaderFieldValue(expanded) {
			r.errorf(at, "backends", "is not the value of a header: it has characters such as a line break")
		}
		headers[name] = backends.Secret(expanded)
	}
	return headers
}

// headerName refuses what cannot be the name of a header that requests get.
func (r *reader) headerName(p keyPath, name string) {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		r.errorf(p, "auth", "%q is not the name of a header", name)
	case isIdempotencyKey(name):
		r.errorf(p, "auth", "a header %s would have requests repeated; calls carry their key in _meta", name)
	}
}

// certificates reads a bundle of CA certificates; nil = there is none.
func (r *reader) certificates(p keyPath, file string) []byte {
	if file == "" {
		return nil
	}
	data, err := ReadFile(file)
	if err != nil {
		r.errorf(p, "backends", "cannot be read: %v", err)
	}
	return data
}
