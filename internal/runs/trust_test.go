package runs_test

import (
	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/workflows"
)

// testKeys sign what runs of tests are told.
var testKeys = func() *secrets.Keys {
	keys, err := secrets.NewKeys(secrets.FixedKeys([]byte("tests")))
	if err != nil {
		panic(err)
	}
	return keys
}()

var trust = workflows.Trust{Keys: testKeys}

// signed is a signal with proof, as clients send it.
func signed(name, run string, body any) workflows.Signal {
	s, err := workflows.NewSignal(testKeys, name, run, body)
	if err != nil {
		panic(err)
	}
	return s
}
