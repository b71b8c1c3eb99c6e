package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/secrets"
)

// payloadFlags name the keys that seal the values of runs for Temporal.
type payloadFlags struct {
	PayloadKeyFile    string `help:"File with the keys that seal (encrypt) values of runs before they go to Temporal, the same for all processes: lines ID:KEY, each KEY 64 hexadecimal digits, e.g. from openssl rand -hex 32. The first key seals, all open. Default: the keys in PERDURE_PAYLOAD_KEYS, else values are not sealed." env:"PERDURE_PAYLOAD_KEY_FILE" placeholder:"FILE" xor:"payload-keys"`
	PayloadKeyCommand string `help:"Program, with its arguments, that prints these keys, e.g. after a KMS decrypted them. It is started without a shell; quotes are as in one. It runs at start, and when a value was sealed with an unknown key." env:"PERDURE_PAYLOAD_KEY_COMMAND" placeholder:"COMMAND" xor:"payload-keys"`
}

// payloadKeysVar names the variable with the keys, used without the flags.
const payloadKeysVar = "PERDURE_PAYLOAD_KEYS"

// keys reads the keys; nil = values are not sealed.
func (f payloadFlags) keys(ctx context.Context) (*payloads.Keys, error) {
	var where string
	var source payloads.Source
	switch {
	case f.PayloadKeyFile != "":
		where = "--payload-key-file " + f.PayloadKeyFile
		source = func(context.Context) ([]byte, error) { return os.ReadFile(f.PayloadKeyFile) }
	case f.PayloadKeyCommand != "":
		where, source = "--payload-key-command", f.command
	case secrets.Variable(payloadKeysVar) != "":
		where = payloadKeysVar
		source = func(context.Context) ([]byte, error) { return []byte(secrets.Variable(payloadKeysVar)), nil }
	default:
		return nil, nil
	}
	keys, err := payloads.ReadKeys(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("reading the payload keys, %s: %w", where, err)
	}
	return keys, nil
}

// command runs --payload-key-command. Its output appears in no error.
func (f payloadFlags) command(ctx context.Context) ([]byte, error) {
	words, err := splitWords(f.PayloadKeyCommand)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// seal adds the keys, if any, to the options of a client: it seals and opens values.
func (f payloadFlags) seal(ctx context.Context, o *client.Options) error {
	keys, err := f.keys(ctx)
	if err == nil {
		payloads.Seal(o, keys)
	}
	return err
}
