package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/store"
)

const (
	defaultListen   = "127.0.0.1:4483"
	defaultUIListen = "127.0.0.1:8233"
	defaultTemporal = "127.0.0.1:7233"
	defaultData     = ".perdure"
)

// A devFile is how other commands find a running dev: dev.json in its data directory.
type devFile struct {
	PID       int    `json:"pid"`
	MCP       string `json:"mcp"`      // URL of the MCP endpoint
	Temporal  string `json:"temporal"` // host:port
	Namespace string `json:"namespace"`
	UI        string `json:"ui,omitempty"` // URL of the Web UI

	SignInByLink    bool `json:"signInByLink"`              // people sign in to the approvals page with a one-time link
	ApprovalsClosed bool `json:"approvalsClosed,omitempty"` // nobody can sign in there

	// TemporalInternal are the addresses of the parts of Temporal among each other.
	TemporalInternal []string `json:"temporalInternal,omitempty"`
}

// temporalKey is the file with the key pair for connections to the Temporal of a dev.
func temporalKey(data string) string { return filepath.Join(data, "temporal.pem") }

func devFilePath(data string) string { return filepath.Join(data, "dev.json") }

// readDevFile returns nil if the file does not exist.
func readDevFile(data string) (*devFile, error) {
	raw, err := os.ReadFile(devFilePath(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("finding the running dev: %w", err)
	}
	var f devFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("reading %s: %w", devFilePath(data), err)
	}
	return &f, nil
}

func (f devFile) write(data string) error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteFile(devFilePath(data), append(raw, '\n'), 0o644)
}

// A dataDir is the flag for the data directory of a running dev; "" = not given.
type dataDir string

func (d dataDir) String() string { return cmp.Or(string(d), defaultData) }

// running finds the dev that runs there. Without one it returns an error if the flag
// was given, and nil if not, so that the default server is used.
func (d dataDir) running() (*devFile, error) {
	dev, err := readDevFile(d.String())
	if err != nil {
		return nil, err
	}
	if dev != nil {
		switch used, err := store.DataInUse(d.String()); {
		case err != nil:
			return nil, err
		case used:
			return dev, nil
		}
	}
	if d != "" {
		return nil, fmt.Errorf("no perdure dev is running with data in %s, and nothing was done; start it with perdure dev --data %[1]s, or leave --data out", d)
	}
	return nil, nil
}

// serverFlags name the server that a command calls.
type serverFlags struct {
	URL  string  `help:"MCP endpoint of the server. Default: the running dev of --data, else http://127.0.0.1:4483/mcp." env:"PERDURE_URL" placeholder:"URL" group:"Which server:"`
	Data dataDir `help:"Data directory of the dev to call. Default: .perdure." placeholder:"DIR" group:"Which server:"`

	tokenFlags `embed:""`
}

// noteTarget prints which server was called.
func (f serverFlags) noteTarget(c *console) {
	url, err := f.url()
	if err != nil {
		return
	}
	if dev, err := f.Data.running(); err == nil && dev != nil && dev.MCP == url {
		url += ", the perdure dev with data in " + f.Data.String()
	}
	c.notef("at %s", url)
}

// tokenFlags name the bearer token for a server.
type tokenFlags struct {
	Token     string `help:"Bearer token for the server. Other users can read command lines, so prefer the variable or a file." env:"PERDURE_TOKEN" placeholder:"TOKEN" xor:"token" group:"Which server:"`
	TokenFile string `help:"File with the bearer token for the server." placeholder:"FILE" xor:"token" group:"Which server:"`
}

func (f tokenFlags) token() (string, error) {
	if f.TokenFile == "" {
		return f.Token, nil
	}
	text, err := os.ReadFile(f.TokenFile)
	if err != nil {
		return "", fmt.Errorf("reading --token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if strings.ContainsAny(token, " \t\r\n") {
		return "", usagef("--token-file %s has more than one word; it must have the token and nothing else", f.TokenFile)
	}
	return token, nil
}

// A target is a server and the token for it.
type target struct {
	url   string // of the MCP endpoint
	token string // bearer token; "" = none
}

// ask sends a request for a page of the server, and reads the response.
func (t target) ask(ctx context.Context, limit time.Duration, method, page string, body io.Reader) (*http.Response, []byte, error) {
	at, err := besideEndpoint(t.url, page)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if t.token != "" {
		request.Header.Set("Authorization", "Bearer "+t.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, unreached(at.Host, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized {
		return nil, nil, errUnauthorized(t.url)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the response of %s: %w", t.url, err)
	}
	return response, text, nil
}

// besideEndpoint is the URL of a page of the server of an MCP endpoint, or of any
// other URL.
func besideEndpoint(server, page string) (*url.URL, error) {
	base, err := url.Parse(server)
	if err != nil || base.Host == "" {
		return nil, usagef("--url %q: %v", server, cmp.Or(err, errors.New("not a URL such as http://127.0.0.1:4483")))
	}
	return base.Parse(page)
}

func (f serverFlags) target() (target, error) {
	token, err := f.token()
	if err != nil {
		return target{}, err
	}
	url, err := f.url()
	return target{url, token}, err
}

func (f serverFlags) url() (string, error) {
	if f.URL != "" {
		return f.URL, nil
	}
	dev, err := f.Data.running()
	if err != nil {
		return "", err
	}
	if dev != nil && dev.MCP != "" {
		return dev.MCP, nil
	}
	return "http://" + defaultListen + service.Endpoint, nil
}
