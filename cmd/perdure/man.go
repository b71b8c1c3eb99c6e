package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
)

type manCommand struct {
	Dir string `arg:"" help:"Directory to write to; it is made if it does not exist." placeholder:"DIR"`
}

func (manCommand) Help() string {
	return `Writes a page for each command, in section 1. Example:

    perdure man ~/.local/share/man/man1`
}

func (m manCommand) Run(k *kong.Kong, c *console) error {
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return fmt.Errorf("making the directory for the pages: %w", err)
	}
	written := 0
	for _, node := range commands(k.Model.Node) {
		name := strings.Join(names(node), "-") + ".1"
		if err := os.WriteFile(filepath.Join(m.Dir, name), []byte(manPage(node)), 0o644); err != nil {
			return fmt.Errorf("writing a page: %w", err)
		}
		written++
	}
	c.notef("%d pages in %s", written, m.Dir)
	return nil
}

// commands are a node and all visible ones below it.
func commands(n *kong.Node) []*kong.Node {
	all := []*kong.Node{n}
	for _, child := range n.Children {
		if !child.Hidden {
			all = append(all, commands(child)...)
		}
	}
	return all
}

// names are those of the program and of the commands that lead to a node, without
// aliases.
func names(n *kong.Node) []string {
	if n.Parent == nil {
		return []string{n.Name}
	}
	return append(names(n.Parent), n.Name)
}

// manPage is the page of a command, in the language of man.
func manPage(n *kong.Node) string {
	var b strings.Builder
	name := strings.Join(names(n), "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"perdure\"\n", roffWord(strings.ToUpper(name)), roffWord("perdure "+programVersion()))
	help, _, _ := strings.Cut(n.Help, "\n")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(help))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", roff(strings.Join(names(n), " ")), roff(strings.TrimSpace(strings.TrimPrefix(n.Summary(), n.Path()))))
	if n.Detail != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(n.Detail))
	}
	if len(n.Positional) > 0 {
		b.WriteString(".SH ARGUMENTS\n")
		for _, p := range n.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", roff(p.Name), roff(p.Help))
		}
	}
	b.WriteString(manFlags(n))
	if len(n.Children) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, child := range commands(n)[1:] {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.Join(names(child), " ")), roff(child.Help))
		}
	}
	if n.Parent != nil {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(strings.Join(names(n.Parent), "-")))
	}
	return b.String()
}

func manFlags(n *kong.Node) string {
	var b strings.Builder
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s", roff(f.String()), roff(f.Help))
			if len(f.Envs) > 0 {
				fmt.Fprintf(&b, "\n(variable %s)", roff(strings.Join(f.Envs, ", ")))
			}
			b.WriteString("\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return ".SH OPTIONS\n" + b.String()
}

// roff is text as it is: no request of man's language begins in it.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func roffWord(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
