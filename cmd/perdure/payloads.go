package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/environ"
	"github.com/perdure/perdure/internal/payloads"
)

// payloadFlags say with which keys the values of runs are sealed for Temporal.
type payloadFlags struct {
	PayloadKeyFile    string `help:"File with the keys that seal what runs hold, before it goes to Temporal: lines ID:KEY, the key with 64 hexadecimal digits, e.g. of openssl rand -hex 32; the first one seals, all open. The same for all processes. Default: the keys in PERDURE_PAYLOAD_KEYS, else nothing is sealed." env:"PERDURE_PAYLOAD_KEY_FILE" placeholder:"FILE" xor:"payload-keys"`
	PayloadKeyCommand string `help:"Command that prints these keys, e.g. one that has a KMS decrypt them. It is run by sh at the start, and when a value was sealed with a key that is not known." env:"PERDURE_PAYLOAD_KEY_COMMAND" placeholder:"COMMAND" xor:"payload-keys"`
}

// payloadKeysVar holds the keys where no flag says where they are.
const payloadKeysVar = "PERDURE_PAYLOAD_KEYS"

// keys reads the keys; nil = nothing is sealed.
func (f payloadFlags) keys(ctx context.Context) (*payloads.Keys, error) {
	var where string
	var source payloads.Source
	switch {
	case f.PayloadKeyFile != "":
		where = "--payload-key-file " + f.PayloadKeyFile
		source = func(context.Context) ([]byte, error) { return os.ReadFile(f.PayloadKeyFile) }
	case f.PayloadKeyCommand != "":
		where, source = "--payload-key-command", f.command
	case environ.Secret(payloadKeysVar) != "":
		where = payloadKeysVar
		source = func(context.Context) ([]byte, error) { return []byte(environ.Secret(payloadKeysVar)), nil }
	default:
		return nil, nil
	}
	keys, err := payloads.ReadKeys(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("reading the payload keys, %s: %w", where, err)
	}
	return keys, nil
}

// command runs the command, whose output is in no error.
func (f payloadFlags) command(ctx context.Context) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", f.PayloadKeyCommand)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(told.String()))
	}
	return out, nil
}

// seal has a client seal what runs hold, if there are keys, and open what is
// sealed.
func (f payloadFlags) seal(ctx context.Context, o *client.Options) error {
	keys, err := f.keys(ctx)
	if err == nil {
		payloads.Seal(o, keys)
	}
	return err
}
