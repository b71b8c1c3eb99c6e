package definitions

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

// The two forms of parameters become one schema.
func TestLightParametersAreTheSame(t *testing.T) {
	t.Parallel()
	defs, diags := Parse("light.yaml", perduretest.Read(t, "testdata/ok/light_parameters.yaml"))
	perduretest.NoError(t, diags.Err())
	if diff := cmp.Diff(string(defs[1].InputSchema()), string(defs[0].InputSchema())); diff != "" {
		t.Errorf("light (-full +light):\n%s", diff)
	}
	args, err := defs[0].Arguments([]byte(`{"name": "Ada", "hosts": []}`))
	if want := `{"count":10,"greeting":"hello there","hosts":[],"ids":[1,2],"mode":"fast","name":"Ada","quoted":"hello there","said":"they say \"hello\""}`; err != nil || string(args) != want {
		t.Errorf("got %s, %v, want %s", args, err, want)
	}
	again, err := FromSource(defs[0].Source())
	if err != nil || string(again.InputSchema()) != string(defs[0].InputSchema()) {
		t.Errorf("read again: %v", err)
	}
}
