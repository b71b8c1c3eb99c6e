package scaffold

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/config"
)

// ErrByHand is in the chain of errors of Extend where a configuration is written in a
// way that it cannot extend.
var ErrByHand = errors.New("it must be added by hand")

// Extend adds a server to the text of a configuration, behind the last backend.
// Everything else stays as it is written, comments included.
func Extend(text string, s *Server, effects []Proposal) (string, error) {
	root, err := onlyDocument(text)
	if err != nil {
		return "", err
	}
	if slices.Contains(backendNames(root), s.Name) {
		return "", fmt.Errorf("a backend %s is already there; choose another name, or remove it first", s.Name)
	}
	indent := "  "
	if list := definitions.Child(root, "backends"); list != nil && len(list.Content) > 0 {
		indent = strings.Repeat(" ", list.Column-1)
	}
	extended, err := insert(text, root, "backends", s.Entry(indent, effects, ""))
	if err != nil {
		return "", err
	}
	if s.Auth != nil {
		if extended, err = extendAuth(extended, s); err != nil {
			return "", err
		}
	}
	return extended, checkExtended(text, extended, s.Name)
}

func onlyDocument(text string) (*yaml.Node, error) {
	docs, err := definitions.Documents([]byte(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the configuration: %w", err)
	case len(docs) > 1:
		return nil, fmt.Errorf("the file has several documents: %w", ErrByHand)
	case len(docs) == 1 && docs[0].Kind == yaml.MappingNode:
		return docs[0], nil
	case len(docs) == 0:
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	return nil, fmt.Errorf("the file is no mapping: %w", ErrByHand)
}

// insert puts lines behind what a key of the root has, or adds the key.
func insert(text string, root *yaml.Node, key, lines string) (string, error) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	value := definitions.Child(root, key)
	switch {
	case root.Style&yaml.FlowStyle != 0:
		return "", fmt.Errorf("the file is written in braces: %w", ErrByHand)
	case value == nil:
		return text + "\n" + key + ":\n" + lines, nil
	}
	all := strings.SplitAfter(text, "\n")
	at := keyLine(root, key)
	if value.Style&yaml.FlowStyle != 0 && len(value.Content) > 0 {
		return "", fmt.Errorf("%s is written in brackets: %w", key, ErrByHand)
	}
	if len(value.Content) == 0 { // null, [] or {}
		for _, empty := range []string{" []", " {}", " null", " ~"} {
			all[at-1] = strings.Replace(all[at-1], ":"+empty, ":", 1)
		}
		return strings.Join(all[:at], "") + lines + strings.Join(all[at:], ""), nil
	}
	end := len(all)
	if next := config.LineAfter(root, key); next > 0 {
		end = next - 1
	}
	for end > at && isFiller(all[end-1]) {
		end--
	}
	return strings.Join(all[:end], "") + lines + strings.Join(all[end:], ""), nil
}

// isFiller reports whether a line is empty, or a comment of what follows.
func isFiller(line string) bool {
	return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#")
}

// extendAuth adds the strategy of a server to outgoingAuth.
func extendAuth(text string, s *Server) (string, error) {
	root, err := onlyDocument(text)
	if err != nil {
		return "", err
	}
	auth := definitions.Child(root, "outgoingAuth")
	if auth == nil || len(auth.Content) == 0 {
		return insert(text, root, "outgoingAuth", "  backends:\n"+s.authentication())
	}
	return "", fmt.Errorf("outgoingAuth is there already: %w", ErrByHand)
}

// checkExtended reports whether a configuration is what it was, with one more backend.
func checkExtended(before, after, name string) error {
	was, err := onlyDocument(before)
	if err != nil {
		return err
	}
	now, err := onlyDocument(after)
	if err != nil || !slices.Equal(append(backendNames(was), name), backendNames(now)) {
		return fmt.Errorf("the file is written in an unusual way: %w", ErrByHand)
	}
	return nil
}

func backendNames(root *yaml.Node) (names []string) {
	list := definitions.Child(root, "backends")
	if list == nil {
		return nil
	}
	for _, entry := range list.Content {
		if name := definitions.Child(entry, "name"); name != nil {
			names = append(names, name.Value)
		}
	}
	return names
}

func keyLine(mapping *yaml.Node, key string) int {
	for k := range definitions.Members(mapping) {
		if k.Value == key {
			return k.Line
		}
	}
	return 0
}
