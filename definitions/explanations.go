package definitions

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed checks.yaml
var checksText []byte

// An Explanation says what a check means, the one that diagnostics name.
type Explanation struct {
	Check string `yaml:"check" json:"check"`
	Is    string `yaml:"is" json:"is"` // error, warning, or when it is which
	Means string `yaml:"means" json:"means"`
	Wrong string `yaml:"wrong" json:"wrong"` // an example that the check reports; "" = none
	Right string `yaml:"right" json:"right"` // the same without the mistake
}

// Explanations explain each check of definitions, sorted.
func Explanations() []Explanation { return ReadExplanations(checksText) }

// ReadExplanations reads a list of explanations, which is part of the program.
func ReadExplanations(text []byte) (all []Explanation) {
	docs, err := Documents(text)
	if err != nil || len(docs) != 1 {
		panic(fmt.Sprintf("definitions: the explanations of checks: %v", err)) // they are a constant
	}
	if diags := Decode("checks.yaml", docs[0], &all); diags != nil {
		panic(fmt.Sprintf("definitions: the explanations of checks: %v", diags)) // they are a constant
	}
	return all
}

// Markdown is the explanation as a section of a page, without its heading.
func (e Explanation) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", e.Means, e.Is)
	for _, example := range []struct{ word, text string }{{"Wrong", e.Wrong}, {"Right", e.Right}} {
		if example.text != "" {
			fmt.Fprintf(&b, "\n%s:\n\n```yaml\n%s```\n", example.word, example.text)
		}
	}
	return b.String()
}
