package program_test

import (
	"github.com/perdure/perdure/internal/signing"
	"github.com/perdure/perdure/workflows"
)

// testKeys sign what runs of tests are told.
var testKeys = func() *signing.Keys {
	keys, err := signing.New(signing.Fixed([]byte("tests")))
	if err != nil {
		panic(err)
	}
	return keys
}()

var trust = workflows.Trust{Keys: testKeys}
