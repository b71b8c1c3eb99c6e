package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/definitions/view"
)

// describeField describes a field: its name, * if it is required, its title,
// description and limits, and below them the choices. Choices of a list are boxes,
// ticked for the default.
func describeField(f *view.Field, indent string) string {
	line := fieldName(f)
	if f.Required {
		line += "*"
	}
	title := f.Label
	if title == fieldName(f) {
		title = ""
	}
	for _, says := range []string{title, f.Description, takes(f)} {
		if says != "" {
			line += " – " + strings.ReplaceAll(says, "\n", "\n"+indent+"    ")
		}
	}
	if f.Kind == view.YesNo {
		return line
	}
	for i, c := range f.Choices {
		box := ""
		if f.Kind == view.Several {
			box = "[ ] "
			if f.Default != nil && f.IsDefault(c.Value) {
				box = "[x] "
			}
		}
		line += fmt.Sprintf("\n%s    %s%d. %s", indent, box, i+1, c.Title)
	}
	return line
}

func fieldName(f *view.Field) string { return view.Line(f.Name) }

// takes describes the allowed values.
func takes(f *view.Field) string {
	switch f.Kind {
	case view.Number:
		return cmp.Or(f.Limits, "a number")
	case view.Several:
		return strings.TrimSuffix("any of them, "+f.Limits, ", ")
	}
	return f.Limits
}

// promptOf is the prompt for a field, with the default for an empty line.
func promptOf(f *view.Field) string {
	prompt := fieldName(f)
	switch f.Kind {
	case view.YesNo:
		prompt += " (y/n)"
	case view.Several:
		prompt += " (such as 1, 2; 0 for none)"
	}
	if f.DefaultText != "" {
		prompt += " [" + f.DefaultText + "]"
	}
	return prompt + ": "
}

// readField reads what a person has entered. An empty line means the default, or nil
// (leave the field out) if there is none.
func readField(f *view.Field, text string) (json.RawMessage, error) {
	if text == "" {
		return f.Default, nil
	}
	switch f.Kind {
	case view.Number:
		return view.ReadNumber(text)
	case view.YesNo:
		return readYesNo(text)
	case view.One:
		i, err := pick(f.Choices, text)
		if err != nil {
			return nil, err
		}
		return f.Choices[i].Value, nil
	case view.Several:
		return pickSeveral(f.Choices, text)
	}
	return json.Marshal(text)
}

func readYesNo(text string) (json.RawMessage, error) {
	switch strings.ToLower(text) {
	case "y", "yes", "true":
		return json.RawMessage("true"), nil
	case "n", "no", "false":
		return json.RawMessage("false"), nil
	}
	return nil, errors.New("must be y or n")
}

// pick reads the number or the name of a choice as shown, and returns its index.
// Ambiguous input is refused.
func pick(choices []view.Choice, text string) (int, error) {
	exact, isExact := strings.CutPrefix(text, "#")
	number, err := strconv.Atoi(exact)
	if err != nil || number < 1 || number > len(choices) {
		number = 0
	}
	if isExact && number > 0 {
		return number - 1, nil
	}
	var meant []string
	last := 0
	for i, c := range choices {
		if c.Title == text || i+1 == number {
			meant = append(meant, "#"+strconv.Itoa(i+1))
			last = i
		}
	}
	switch len(meant) {
	case 0:
		return 0, fmt.Errorf("has no choice %q; give its number or its name", text)
	case 1:
		return last, nil
	}
	return 0, fmt.Errorf("has several choices that could be %q; write %s", text, strings.Join(meant, " or "))
}

// pickSeveral reads a list of choices, separated by commas, or by spaces if all are
// numbers; 0 = none. The result has the order of the form, each choice once.
func pickSeveral(choices []view.Choice, text string) (json.RawMessage, error) {
	picked := make([]bool, len(choices))
	for _, part := range splitList(choices, text) {
		i, err := pick(choices, part)
		if err != nil {
			return nil, err
		}
		picked[i] = true
	}
	values := []json.RawMessage{}
	for i, c := range choices {
		if picked[i] {
			values = append(values, c.Value)
		}
	}
	return json.Marshal(values)
}

func splitList(choices []view.Choice, text string) []string {
	if slices.ContainsFunc(choices, func(c view.Choice) bool { return c.Title == text }) {
		return []string{text} // a name may have commas
	}
	if text == "0" {
		return nil
	}
	separators := " "
	if strings.Trim(text, "#0123456789 ") != "" {
		separators = ","
	}
	var parts []string
	for part := range strings.SplitSeq(text, separators) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
