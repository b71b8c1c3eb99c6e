package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/secrets"
)

// maxSecret bounds a secret, in bytes.
const maxSecret = 64 << 10

// Read gives the secret; its error says what to do.
func (s Source) Read() (backends.Secret, error) {
	switch {
	case s.Env != "":
		value := secrets.Variable(s.Env)
		if value == "" {
			return "", fmt.Errorf("environment variable %s is not set: set it and restart perdure", s.Env)
		}
		return backends.Secret(value), nil
	case s.File != "":
		return readSecret(s.File)
	}
	return s.Inline, nil
}

// Check says why the secret cannot be read now; nil = it can, or there is none.
func (s Source) Check() error {
	_, err := s.Read()
	return err
}

func readSecret(name string) (backends.Secret, error) {
	file, err := os.Open(name)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", fmt.Errorf("cannot read file %s: %w", name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	value := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read file %s", name)
	case value == "":
		return "", fmt.Errorf("file %s is empty: write the secret to it", name)
	case len(text) > maxSecret:
		return "", fmt.Errorf("file %s has more than %d bytes: it must contain only the secret", name, maxSecret)
	case strings.ContainsAny(value, "\r\n\x00"):
		return "", fmt.Errorf("file %s has several lines: it must contain only the secret", name)
	}
	return backends.Secret(value), nil
}

// where names what to replace if the secret is refused.
func (s Source) where() string {
	switch {
	case s.Env != "":
		return "set environment variable " + s.Env + " to one that is valid and restart perdure"
	case s.File != "":
		return "put one that is valid into " + s.File
	}
	return "put one that is valid into the configuration and restart perdure"
}

// A header is the same for everybody.
type header struct{ Header }

// Identity implements backends.Credentials.
func (*header) Identity(backends.Caller) string { return "" }

// Headers implements backends.Credentials.
func (h *header) Headers(_ context.Context, _ backends.Caller, refused backends.Headers) (backends.Headers, error) {
	value, err := h.Value.Read()
	if err != nil {
		return nil, &backends.CredentialsError{Reason: fmt.Sprintf("the header %s: %s", h.Name, err)}
	}
	if refused != nil && refused[h.Name] == value {
		return nil, &backends.CredentialsError{Reason: fmt.Sprintf("the backend refuses the header %s: %s", h.Name, h.Value.where())}
	}
	return backends.Headers{h.Name: value}, nil
}
