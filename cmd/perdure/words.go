package main

import (
	"errors"
	"strings"
)

// splitWords splits a command into the program and its arguments. Quotes and backslashes
// are as in a shell; variables, pipes and the like mean nothing. There is one word at
// least.
func splitWords(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune // within which the text is; 0 = none
	var escaped, begun bool
	for _, r := range command {
		switch {
		case escaped:
			escaped = false
			if quote == '"' && !strings.ContainsRune("\\\"$`", r) {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, begun = r, true
		case strings.ContainsRune(" \t\r\n", r):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	switch {
	case quote != 0 || escaped:
		return nil, errors.New("a quote of the command does not end")
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("the command names no program")
	}
	return words, nil
}
