package config

import (
	"path/filepath"
	"slices"
	"strings"
)

// isJSON reports whether a file is JSON by its name: editors write comments there.
func isJSON(file string) bool {
	return slices.Contains([]string{".json", ".jsonc", ".json5"}, strings.ToLower(filepath.Ext(file)))
}

// plainJSON gives JSON with spaces in place of its comments, so that lines and
// columns stay what they are. YAML, as which it is read, allows trailing commas; tabs
// become spaces as well, since YAML refuses them as indentation.
func plainJSON(data []byte) []byte {
	out := slices.Clone(data)
	for i := 0; i < len(out); i++ {
		switch {
		case out[i] == '"':
			i = endOfString(out, i)
		case out[i] == '\t':
			out[i] = ' '
		case hasPrefixAt(out, i, "//"):
			for ; i < len(out) && out[i] != '\n'; i++ {
				out[i] = ' '
			}
		case hasPrefixAt(out, i, "/*"):
			end := strings.Index(string(out[i+2:]), "*/")
			if end < 0 {
				return out // it is no JSON, which the parser reports
			}
			for stop := i + end + 4; i < stop; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
			i--
		}
	}
	return out
}

func hasPrefixAt(data []byte, i int, prefix string) bool {
	return i+len(prefix) <= len(data) && string(data[i:i+len(prefix)]) == prefix
}

// endOfString is where the string ends that begins at i: at its closing quote.
func endOfString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}
