package main

import (
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/quarantine"
	"github.com/perdure/perdure/internal/service"
	"github.com/perdure/perdure/internal/signing"
	"github.com/perdure/perdure/internal/telemetry"
)

// guardFlags say what becomes of runs that take their worker down.
type guardFlags struct {
	QuarantineAfter int `help:"How often a run may be lost with its worker, all but the first time while that executes nothing else, before it is quarantined: it is not executed until somebody releases it (see perdure runs release). At least 2." default:"2" placeholder:"N"`
}

// Validate is of kong.
func (f guardFlags) Validate() error {
	if f.QuarantineAfter < 2 {
		return fmt.Errorf("--quarantine-after must be at least 2: the first time, other runs may be to blame")
	}
	return nil
}

// guard puts a guard on the connection of a worker that is about to be made.
func (f guardFlags) guard(o *client.Options, largeValues bool, keys *signing.Keys, told *telemetry.Telemetry, log *slog.Logger) *quarantine.Guard {
	return service.NewGuard(o, f.QuarantineAfter, largeValues, keys, told, log)
}
