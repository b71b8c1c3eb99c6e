package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway"
)

// registryLimit bounds a request to the registry.
const registryLimit = time.Minute

// registryFlags are the flags of commands that use the registry of a server.
type registryFlags struct {
	serverFlags `embed:""`

	Output string `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

// get reads from the registry of the server.
func (f serverFlags) get(ctx context.Context, path string, query url.Values, answer any) error {
	return f.ask(ctx, http.MethodGet, path+"?"+query.Encode(), nil, answer)
}

// post sends a change to the registry of the server.
func (f serverFlags) post(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return f.ask(ctx, http.MethodPost, path, bytes.NewReader(text), answer)
}

func (f serverFlags) ask(ctx context.Context, method, path string, body io.Reader, answer any) error {
	of, err := f.target()
	if err != nil {
		return err
	}
	response, text, err := of.ask(ctx, registryLimit, method, gateway.RegistryPrefix+path, body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		var said gateway.RegistryError
		if json.Unmarshal(text, &said) == nil && said.Message != "" {
			return errors.New(said.Message)
		}
		return fmt.Errorf("%s has no registry of a perdure server: %s %s", of.url, response.Status, strings.TrimSpace(string(text)))
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("reading the response of %s: %w", of.url, err)
	}
	return nil
}

// version returns a version of the server, found by a reference or by its digest.
func (f serverFlags) version(ctx context.Context, of string) (gateway.RegistryVersion, error) {
	query := url.Values{"reference": {of}}
	if strings.HasPrefix(of, "sha256:") {
		query = url.Values{"digest": {of}}
	}
	var v gateway.RegistryVersion
	err := f.get(ctx, "definition", query, &v)
	return v, err
}

// definition returns a published version of a composite tool, and notes if it is
// deprecated.
func (f serverFlags) definition(ctx context.Context, c *console, of string) (*definitions.Definition, error) {
	v, err := f.version(ctx, of)
	switch {
	case err != nil:
		return nil, err
	case definitions.IsModuleName(v.Name):
		return nil, usagef("%s is a module, not a composite tool", v.Name)
	}
	noteDeprecated(c, v)
	return definitions.FromSource(v.Source)
}

func noteDeprecated(c *console, v gateway.RegistryVersion) {
	if v.Deprecated != "" {
		c.notef("%s %s is deprecated: %s", v.Name, v.Version, v.Deprecated)
	}
}

// modules finds published modules at the server.
func (f serverFlags) modules(ctx context.Context) definitions.Modules {
	return func(ref definitions.Reference) (*definitions.Module, error) {
		v, err := f.version(ctx, ref.String())
		if err != nil {
			return nil, err
		}
		return definitions.ModuleFromSource(v.Source)
	}
}
