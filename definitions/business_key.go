package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions/template"
)

// OnDuplicate says what happens to a call if a run has its business key already.
type OnDuplicate string

// The values of OnDuplicate. "" means Attach.
const (
	Attach OnDuplicate = "attach" // the call gets the result of that run
	Reject OnDuplicate = "reject" // the call is refused
)

// OnDisconnect says what happens to a run when its client cancels the call, or closes
// its stream, which cancels a call in 2026-07-28.
type OnDisconnect string

// The values of OnDisconnect. "" means the server's setting, by default CancelRun.
const (
	CancelRun   OnDisconnect = "cancel"   // the run is cancelled, unless a client that closed its stream soon returns
	ContinueRun OnDisconnect = "continue" // the run continues
)

// Key expands the business key for the arguments of a call; "" without one. An empty
// result is an *ArgumentsError.
func (d *Definition) Key(arguments json.RawMessage) (string, error) {
	if d.BusinessKey == "" {
		return "", nil
	}
	t, err := compileField("businessKey", d.BusinessKey)
	if err != nil {
		return "", err
	}
	params, err := decodeObject(arguments)
	if err != nil {
		return "", err
	}
	key, err := t.Text((&Scope{Params: params}).Data())
	if err == nil && strings.TrimSpace(key) == "" {
		err = fmt.Errorf("it is empty; calls that mean the same would count as different ones")
	}
	if err != nil {
		return "", &ArgumentsError{[]ArgumentProblem{{"", "the business key of " + d.Name + ": " + err.Error()}}}
	}
	return key, nil
}

// businessKey checks the template of the key, which can read parameters only.
func (c *checker) businessKey() {
	d := c.def
	if !slices.Contains([]OnDisconnect{"", CancelRun, ContinueRun}, d.OnDisconnect) {
		c.errorf("onDisconnect", "on-disconnect", "onDisconnect %q is not known; known values: cancel and continue", d.OnDisconnect)
	}
	if !slices.Contains([]OnDuplicate{"", Attach, Reject}, d.OnDuplicate) {
		c.errorf("onDuplicate", "business-key", "onDuplicate %q is not known; known values: attach and reject", d.OnDuplicate)
	}
	if d.BusinessKey == "" {
		if d.OnDuplicate != "" {
			c.errorf("onDuplicate", "business-key", "onDuplicate says what becomes of a second run with the same businessKey, and there is none")
		}
		return
	}
	t := c.parse(read{label: "businessKey", path: "businessKey", text: d.BusinessKey})
	if t == nil {
		return
	}
	if !t.HasActions() {
		c.errorf("businessKey", "business-key", "businessKey is the text %s, the same for all calls; templates stand in {{ }}", template.Excerpt(d.BusinessKey))
	}
	known := c.parameterNames()
	for _, ref := range t.Refs() {
		at := d.within("businessKey", d.BusinessKey, ref.Offset)
		switch {
		case ref.Root != "params":
			c.report("businessKey", at, SeverityError, "business-key", "businessKey reads .%s; it is made before a run begins, from .params alone", ref.Root)
		case len(ref.Path) > 0 && known != nil && !slices.Contains(known, ref.Path[0]):
			c.report("businessKey", at, SeverityWarning, "unknown-parameter", "businessKey: parameter %q is not declared%s", ref.Path[0], template.DidYouMean(ref.Path[0], known))
		}
	}
}
