package template

import "fmt"

// Functions are charged for reading, too: else a template that reads a large text many
// times without building anything would never end.

// Prices of reading, in bytes.
const (
	readBytes     = 4    // of a text, in the time of one that is built
	compareBytes  = 32   // of two texts that are compared
	spellPrice    = 32   // of a word of an integer that is written
	quickDigits   = 2500 // after which each takes twice as long to read
	fractionPrice = 256  // of a word of an integer that is written with a fraction

	// maxDecoded bounds the values that one expansion reads from JSON, which take
	// much more memory, and time, than their text.
	maxDecoded = 2_000_000
)

var errTooManyValues = fmt.Errorf("JSON of more than %d values is too much for a template (limit MaxExpansionWork)", maxDecoded)

// reads charges for looking at all of a text.
func (x *expansion) reads(s string) error { return x.charge(len(s) / readBytes) }

// compares charges for comparing two values, as far as they may be alike.
func (x *expansion) compares(a, b any) error {
	s, _ := a.(string)
	t, _ := b.(string)
	return x.charge(min(len(s), len(t)) / compareBytes)
}

// readsNumber charges for reading a number, whose time grows faster than its digits.
func (x *expansion) readsNumber(s string) error {
	return x.charge(len(s) * (1 + min(len(s), maxDigits)/quickDigits))
}

// spells charges for writing a large integer.
func (x *expansion) spells(n number) error {
	if n.big == nil {
		return nil
	}
	return x.charge(n.words() * spellPrice)
}

// decodes counts the values of a JSON text before it is read.
func (x *expansion) decodes(text string) error {
	for i := range len(text) {
		switch text[i] {
		case ',', '[', '{':
			x.decoded++
		}
	}
	if x.decoded > maxDecoded {
		return errTooManyValues
	}
	return x.charge(len(text))
}
