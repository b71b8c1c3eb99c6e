package scaffold

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
)

// conceal takes a server over. Each value that may be a secret becomes a reference
// to a variable of the environment.
func (set *Set) conceal(s *config.Server) *Server {
	c := &concealer{set: set, out: &Server{Server: *s}}
	c.env(s.Env)
	c.headers(s.Headers)
	c.args(s.Args)
	c.url(s.URL)
	c.auth()
	c.referred()
	return c.out
}

type concealer struct {
	set *Set
	out *Server
}

func refer(name string) string { return "${env:" + name + "}" }

// variable keeps a value as a variable and gives its name: the one that is wanted,
// or one with the name of the server, and a number, if that has another value already.
func (c *concealer) variable(wanted, value, where string) string {
	name, own := variableName(wanted), variableName(wanted)
	if of := variableName(c.out.Name) + "_"; !strings.HasPrefix(own, of) {
		own = of + own
	}
	if c.hasOther(name, value) {
		name = own
	}
	for n := 2; c.hasOther(name, value); n++ {
		name = own + "_" + strconv.Itoa(n)
	}
	c.out.Variables = append(c.out.Variables, Variable{Name: name, Value: backends.Secret(value), Where: c.out.where(where)})
	return name
}

// hasOther reports whether a variable has another value.
func (c *concealer) hasOther(name, value string) bool {
	other := func(v Variable) bool { return v.Name == name && string(v.Value) != value }
	return slices.ContainsFunc(c.out.Variables, other) ||
		slices.ContainsFunc(c.set.Servers, func(s *Server) bool { return slices.ContainsFunc(s.Variables, other) })
}

// where says what a variable is: its part of a server, in its file.
func (s *Server) where(part string) string {
	if s.File == "" {
		return part + " of " + s.Name
	}
	return part + " of " + s.Name + " in " + s.File
}

// variableName makes a name of a variable of a text.
func variableName(text string) string {
	name := strings.ToUpper(regexp.MustCompile(`[^A-Za-z0-9_]+`).ReplaceAllString(text, "_"))
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

func (c *concealer) env(env map[string]string) {
	c.out.Env = map[string]string{}
	c.out.PassEnv = slices.Clone(c.out.PassEnv)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		if !config.EnvReference.MatchString(value) && !isHarmless(name, value) {
			value = refer(c.variable(name, value, "env."+name))
		}
		if value == refer(name) {
			c.out.PassEnv = append(c.out.PassEnv, name)
			continue
		}
		c.out.Env[name] = value
	}
}

func (c *concealer) headers(headers map[string]string) {
	c.out.Headers = map[string]string{}
	for name, value := range headers {
		c.out.Headers[name] = c.header(name, value)
	}
}

// header gives the value of a header with what is secret in it as a variable.
func (c *concealer) header(name, value string) string {
	if config.EnvReference.MatchString(value) || isHarmless(name, value) {
		return value
	}
	scheme, token, ok := strings.Cut(value, " ")
	if ok && slices.Contains([]string{"bearer", "basic", "token"}, strings.ToLower(scheme)) {
		return scheme + " " + refer(c.variable(c.out.Name+"_TOKEN", token, "headers."+name))
	}
	return refer(c.variable(c.out.Name+"_"+name, value, "headers."+name))
}

var (
	// argumentName matches what is before = in --flag=VALUE and NAME=VALUE.
	argumentName = regexp.MustCompile(`^-{0,2}[A-Za-z_][A-Za-z0-9_.-]*$`)
	// headerArgument matches a header as programs take it: Authorization: Bearer TOKEN.
	headerArgument = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)(: *)([^/\\ ].*)$`)
)

func isHeaderFlag(flag string) bool {
	return slices.Contains([]string{"-H", "--header", "--headers"}, flag)
}

func (c *concealer) args(args []string) {
	c.out.Args = nil
	for i, arg := range args {
		before := ""
		if i > 0 {
			before = args[i-1]
		}
		c.out.Args = append(c.out.Args, c.arg(before, arg))
	}
}

func (c *concealer) arg(before, arg string) string {
	flag, value, hasValue := strings.Cut(arg, "=")
	isOption := strings.HasPrefix(arg, "-")
	hasValue = hasValue && argumentName.MatchString(flag)
	header := headerArgument.FindStringSubmatch(arg)
	switch {
	case header != nil && isHeaderFlag(before):
		return header[1] + header[2] + c.header(header[1], header[3])
	case isOption && hasValue && isSecretName(flag) && !config.EnvReference.MatchString(value):
		return flag + "=" + refer(c.variable(c.out.Name+"_"+strings.TrimLeft(flag, "-"), value, "args, "+flag))
	case strings.HasPrefix(before, "-") && !strings.Contains(before, "=") && isSecretName(before) && !isOption && !config.EnvReference.MatchString(arg):
		return refer(c.variable(c.out.Name+"_"+strings.TrimLeft(before, "-"), arg, "args, "+before))
	case isOption && hasValue:
		return flag + "=" + c.arg(flag, value)
	case header != nil && isSecretName(header[1]) && len(strings.Fields(header[3])) <= 2 && !hidesCode(before, header[3]):
		return header[1] + header[2] + c.header(header[1], header[3])
	}
	// Of several words, such as a command for a shell, only those are hidden that may be
	// secret: what a person agrees to start is shown.
	return regexp.MustCompile(`\S+`).ReplaceAllStringFunc(arg, func(word string) string { return c.word(before, word) })
}

// word gives a word of an argument.
func (c *concealer) word(before, word string) string {
	name, value, hasValue := strings.Cut(word, "=")
	hasValue = hasValue && argumentName.MatchString(name)
	switch {
	case config.EnvReference.MatchString(word) || hidesCode(before, word):
	case hasValue && !strings.Contains(word, "://") && isSecretName(name): // NAME=VALUE, as of docker run -e
		return name + "=" + refer(c.variable(name, value, "args, "+name))
	case hasValue:
		return name + "=" + c.word(before, value)
	case looksSecret(word):
		return refer(c.variable(c.out.Name+"_SECRET", word, "args"))
	}
	return c.inURL(word, "args")
}

var (
	codeFlag  = regexp.MustCompile(`^-{1,2}([a-z]*[ceEprS]|eval|exec|command|print|run)$`)
	tokenText = regexp.MustCompile(`^[A-Za-z0-9_.~+/=:@%,-]*$`)
)

// hidesCode reports whether a word may be part of what the flag before it has executed.
func hidesCode(flag, word string) bool {
	return codeFlag.MatchString(flag) && !tokenText.MatchString(word)
}

func (c *concealer) url(text string) { c.out.URL = c.inURL(text, "url") }

// unparsedUser matches the user and the password of a URL whose password has characters
// that URLs do not have there.
var unparsedUser = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^:@/?#\s]*:(.+)@[^@\s]*$`)

// inURL gives a URL with its password, and parameters that may be secret, as
// variables; what is none, as it is.
func (c *concealer) inURL(text, where string) string {
	if config.EnvReference.MatchString(text) {
		return text
	}
	u, err := url.Parse(text)
	if m := unparsedUser.FindStringSubmatch(text); m != nil && (err != nil || u.User != nil) {
		return strings.Replace(text, ":"+m[1]+"@", ":"+refer(c.variable(c.out.Name+"_PASSWORD", m[1], where+", password"))+"@", 1)
	}
	if err != nil || u.Scheme == "" || u.Host == "" {
		return text
	}
	if name := u.User.Username(); looksSecret(name) || looksRandom(name) {
		text = strings.Replace(text, name, refer(c.variable(c.out.Name+"_USER", name, where+", user")), 1)
	}
	for _, part := range strings.Split(u.EscapedPath(), "/") { // as of servers that are reached by a secret address
		if looksSecret(part) || looksRandom(part) {
			text = strings.Replace(text, "/"+part, "/"+refer(c.variable(c.out.Name+"_PATH", part, where+", path")), 1)
		}
	}
	for _, pair := range strings.Split(u.RawQuery+"&"+u.EscapedFragment(), "&") {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && (isSecretName(name) || looksSecret(value) || looksRandom(value)) {
			text = strings.Replace(text, pair, name+"="+refer(c.variable(c.out.Name+"_"+name, value, where+", "+name)), 1)
		}
	}
	return text
}

// auth takes secrets out of the strategy of outgoingAuth.
func (c *concealer) auth() {
	if c.out.Auth == nil {
		return
	}
	copied := *c.out.Auth
	c.out.Auth = c.strategy(&copied)
}

func (c *concealer) strategy(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content, out.Style = nil, out.Style&^yaml.FlowStyle
	for i, inner := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			out.Content = append(out.Content, c.secretOf(&out, n.Content[i-1].Value, inner))
			continue
		}
		out.Content = append(out.Content, c.strategy(inner))
	}
	return &out
}

// secretOf gives the value of a key of a strategy; a secret becomes the name of a
// variable under KEYEnv.
func (c *concealer) secretOf(parent *yaml.Node, key string, value *yaml.Node) *yaml.Node {
	if key != "headerValue" && key != "clientSecret" || value.Kind != yaml.ScalarNode {
		return c.strategy(value)
	}
	last := *parent.Content[len(parent.Content)-1]
	last.Value = key + "Env"
	parent.Content[len(parent.Content)-1] = &last
	out := *value
	out.Value = c.variable(c.out.Name+"_"+key, value.Value, "outgoingAuth, "+key)
	return &out
}

// referred notes the variables that the server refers to, and those that it passes.
func (c *concealer) referred() {
	texts := slices.Concat([]string{c.out.Command, c.out.URL, c.out.Dir}, c.out.Args, slices.Collect(maps.Values(c.out.Env)), slices.Collect(maps.Values(c.out.Headers)))
	for _, text := range texts {
		for _, m := range config.EnvReference.FindAllStringSubmatch(text, -1) {
			if m[2] == "" { // it has no default
				c.need(m[1])
			}
		}
	}
	for _, name := range slices.Concat(c.out.PassEnv, namedIn(c.out.Auth)) {
		c.need(name)
	}
	slices.SortFunc(c.out.Variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
}

func (c *concealer) need(name string) {
	if !slices.ContainsFunc(c.out.Variables, func(v Variable) bool { return v.Name == name }) {
		c.out.Variables = append(c.out.Variables, Variable{Name: name, Where: c.out.where(refer(name))})
	}
}

// namedIn gives the variables that a strategy names, under KEYEnv.
func namedIn(auth *yaml.Node) (names []string) {
	if auth == nil {
		return nil
	}
	for i, n := range auth.Content {
		if auth.Kind == yaml.MappingNode && i%2 == 1 && strings.HasSuffix(auth.Content[i-1].Value, "Env") && n.Kind == yaml.ScalarNode {
			names = append(names, n.Value)
		}
		names = append(names, namedIn(n)...)
	}
	return names
}

var (
	secretName = regexp.MustCompile(`(?i)key|token|secret|pass|pwd|cred|auth|dsn|cookie|session|private|bearer|signature|connection`)
	secretText = regexp.MustCompile(`^(gh[pousr]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|eyJ|AIza|npm_|hf_)|(?i)^bearer `)
	randomText = regexp.MustCompile(`^[A-Za-z0-9_~=-]{20,}$`)
	plainValue = regexp.MustCompile(`^(true|false|yes|no|on|off|\d{1,6}|[a-z]{1,12}|[A-Z]{1,8}|(\.{0,2}/[\w./-]{0,100}:?)+|(-{1,2}[a-z][a-z-]*([ =]\.{0,2}/[\w./-]{0,100})? ?)+|https?://(localhost|127\.0\.0\.1)[:/\w.-]*)$`)
)

func isSecretName(name string) bool { return secretName.MatchString(name) }

// looksSecret recognises the tokens of well-known services.
func looksSecret(value string) bool { return secretText.MatchString(value) }

// looksRandom recognises what nobody has thought of: long, with letters and digits.
func looksRandom(text string) bool {
	return randomText.MatchString(text) && strings.ContainsFunc(text, unicode.IsDigit) && strings.ContainsFunc(text, unicode.IsLetter)
}

// isHarmless reports whether a value is none that anybody would keep secret: a mode,
// a number or a path, under a name that does not sound like a secret's.
func isHarmless(name, value string) bool {
	return value == "" || !isSecretName(name) && plainValue.MatchString(value)
}
