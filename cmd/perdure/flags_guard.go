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

// guardFlags control the quarantine of runs that take their worker down.
type guardFlags struct {
	QuarantineAfter int `help:"After how many lost workers a run is quarantined, at least 2; after the first, the run is executed alone. A quarantined run is not executed until somebody releases it (see perdure runs release)." default:"2" placeholder:"N"`
}

// Validate is called by kong.
func (f guardFlags) Validate() error {
	if f.QuarantineAfter < 2 {
		return fmt.Errorf("--quarantine-after must be at least 2, because at the first loss another run may be to blame")
	}
	return nil
}

// guard adds the quarantine to the connection options of a worker.
func (f guardFlags) guard(o *client.Options, largeValues bool, keys *signing.Keys, told *telemetry.Telemetry, log *slog.Logger) *quarantine.Guard {
	return service.NewGuard(o, f.QuarantineAfter, largeValues, keys, told, log)
}
