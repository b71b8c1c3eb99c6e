package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/service"
)

type codecCommand struct {
	logFlags        `embed:""`
	connectionFlags `embed:""`
	payloadFlags    `embed:""`
	databaseFlags   `embed:""`

	Config    string           `help:"Configuration file of the gateways: how callers authenticate, and what they may see." required:"" placeholder:"FILE"`
	KeyFile   string           `help:"File with the signing key of the gateways, for people who are signed in at the approvals page on the same host. Default: the keys in PERDURE_KEY, else only tokens are accepted." placeholder:"FILE"`
	PublicURL service.WebURL   `help:"URL at which clients reach the gateway, without /mcp: the default audience of tokens, and where people sign in." placeholder:"URL"`
	Listen    string           `help:"Address of the codec endpoint." default:"127.0.0.1:4485" placeholder:"ADDR"`
	UIOrigin  []service.WebURL `help:"Origin of Temporal's Web UI, e.g. https://temporal.example.com: only its pages may send requests. Repeatable. Default: the Web UI of the dev of --data." placeholder:"ORIGIN"`
	Data      dataDir          `help:"Data directory of a dev, whose Temporal, key and large values are the defaults." placeholder:"DIR"`
	Grace     time.Duration    `help:"How long requests under way get to end at a stop." default:"5s" hidden:""`
}

func (codecCommand) Help() string {
	return `Opens sealed values for Temporal's Web UI, and fetches large ones. Enter its
address in the settings of the Web UI, under Codec Server. With "include
cross-origin credentials", people are identified by their session at the approvals
page of the same host; with "pass the user access token", by the token with which
they are signed in at the Web UI. A value is opened only for those who may see its
run: its caller, operators, and approvers of its tool.
` + temporalHelp + ` Example:

    perdure codec --config perdure.yaml --payload-key-file payload.keys --key-file key \
      --public-url https://perdure.example.com --ui-origin https://temporal.example.com`
}

func (d codecCommand) Run(ctx context.Context, c *console) error {
	src := config.Sources{Config: d.Config, CallersOnly: true}
	found, err := load(c, src)
	if err != nil {
		return err
	}
	log := d.logger(c, found.LogLevel)
	found.Auth.Policy.Exchangeable()
	server, done, err := d.server(ctx, found, log)
	if err != nil {
		return err
	}
	defer done()
	listener, err := listen(d.Listen, "--listen")
	if err != nil {
		return err
	}
	if d.Config != "" {
		go service.FollowRules(ctx, src, found, log)
	}
	log.Info("ready", "codec", "http://"+service.Reachable(listener.Addr()))
	return server.Serve(ctx, listener, d.PublicURL, d.Grace)
}

// server builds the codec; done closes what it uses.
func (d codecCommand) server(ctx context.Context, found *config.Loaded, log *slog.Logger) (_ *service.Codec, done func(), err error) {
	o := service.CodecOptions{Policy: &found.Auth.Policy, Logger: log}
	if o.Origins, err = d.origins(); err != nil {
		return nil, nil, err
	}
	if o.Keys, err = d.keys(ctx); err != nil {
		return nil, nil, err
	}
	if o.Callers, err = service.Callers(found.Auth, d.PublicURL, log); err != nil {
		return nil, nil, err
	}
	if o.Login, err = d.login(found, o.Callers, log); err != nil {
		return nil, nil, err
	}
	options, err := temporalFlags{connectionFlags: d.connectionFlags, Data: d.Data}.where()
	if err != nil {
		return nil, nil, err
	}
	options.Logger = sdklog.NewStructuredLogger(service.Quiet(log))
	payloads.Seal(&options, o.Keys)
	values, closeValues, err := findValues(ctx, d.databaseFlags, d.Data.String())
	if err != nil {
		return nil, nil, err
	}
	if values != nil {
		o.Values = values
		payloads.Fetch(&options, values)
		options.DataConverter = payloads.Reader(options.DataConverter, values)
	}
	if o.Keys == nil && o.Values == nil {
		closeValues()
		return nil, nil, usagef("opening values needs keys; set --payload-key-file, --payload-key-command or %s", payloadKeysVar)
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		closeValues()
		return nil, nil, err
	}
	o.Namespace = options.Namespace
	o.Runs = runs.New(runs.Config{Client: temporal, Namespace: options.Namespace, DataConverter: options.DataConverter, Logger: log})
	return service.NewCodec(o), func() { temporal.Close(); closeValues() }, nil
}

// origins are those whose pages may send requests.
func (d codecCommand) origins() ([]service.WebURL, error) {
	if len(d.UIOrigin) > 0 {
		return d.UIOrigin, nil
	}
	const ask = "name the origin of Temporal's Web UI, e.g. --ui-origin https://temporal.example.com"
	dev, err := d.Data.running()
	if err != nil {
		return nil, usagef("%s (%v)", ask, err)
	}
	if dev == nil || dev.UI == "" {
		return nil, usagef(ask)
	}
	return []service.WebURL{service.WebURL(dev.UI), service.WebURL(strings.Replace(dev.UI, "//127.0.0.1:", "//localhost:", 1))}, nil
}

// login identifies people who are signed in at the approvals page; nil = only tokens
// are accepted.
func (d codecCommand) login(loaded *config.Loaded, callers auth.Authenticator, log *slog.Logger) (*auth.Login, error) {
	flags, found := keyFlags{KeyFile: d.KeyFile}.orOf(d.Data)
	if !found {
		return nil, nil
	}
	k, err := flags.keys()
	if err != nil {
		return nil, err
	}
	options, err := service.LoginOptions(loaded.Auth, callers, d.PublicURL, k, log)
	if err != nil {
		return nil, err
	}
	return auth.NewLogin(options)
}
