package config

import (
	_ "embed"

	"github.com/perdure/perdure/definitions"
)

//go:embed checks.yaml
var checksText []byte

// Explanations explain each check of configurations, sorted.
func Explanations() []definitions.Explanation { return definitions.ReadExplanations(checksText) }
