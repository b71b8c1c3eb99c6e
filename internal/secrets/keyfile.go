package secrets

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// KeyBytes is the least length of a key.
const KeyBytes = 32

// ParseKeys reads one key from each line that is not empty; the first one signs. Errors
// begin with where, the source of the text, and do not contain keys.
func ParseKeys(where, text string) ([][]byte, error) {
	var all [][]byte
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		key, err := hex.DecodeString(line)
		if err != nil || len(key) < KeyBytes {
			return nil, fmt.Errorf("%s, line %d: a key has %d hexadecimal digits or more, e.g. of openssl rand -hex %d", where, n, 2*KeyBytes, KeyBytes)
		}
		all = append(all, key)
	}
	if lines.Err() != nil || len(all) == 0 {
		return nil, fmt.Errorf("%s holds no key; make one with openssl rand -hex %d", where, KeyBytes)
	}
	return all, nil
}

// KeyFile reads the keys of a file each time.
func KeyFile(path string) KeySource {
	return func() ([][]byte, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the signing key: %w", err)
		}
		return ParseKeys(path, string(text))
	}
}
