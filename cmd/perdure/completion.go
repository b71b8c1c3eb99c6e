package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/secrets"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCommand) Help() string {
	return `Prints a script that completes commands, flags, IDs of runs and names of tools; the
latter two come from the running server. Examples:

    source <(perdure completion bash)                     # in ~/.bashrc
    source <(perdure completion zsh)                      # in ~/.zshrc
    perdure completion fish > ~/.config/fish/completions/perdure.fish`
}

// completionScripts ask perdure itself, with the words before the cursor. A line of the
// answer is a word, a tab and what it means; none means files.
var completionScripts = map[string]string{
	"bash": `_perdure() {
	local words=("${COMP_WORDS[@]:1:COMP_CWORD}") IFS=$'\n'
	COMPREPLY=($(perdure complete -- "${words[@]}" 2>/dev/null | cut -f1))
	[ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
	[[ $COMPREPLY == *= ]] && compopt -o nospace
}
complete -F _perdure perdure
`,
	"zsh": `#compdef perdure
_perdure() {
	local -a found=() line
	while IFS= read -r line; do
		found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done < <(perdure complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
	if (( $#found )); then _describe perdure found; else _files; fi
}
compdef _perdure perdure
`,
	"fish": `function __perdure_complete
	set -l words (commandline -opc) (commandline -ct)
	perdure complete -- $words[2..] 2>/dev/null
end
complete -c perdure -a '(__perdure_complete)'
`,
}

func (k completionCommand) Run(c *console) error {
	_, err := fmt.Fprint(c.out, completionScripts[k.Shell])
	return err
}

// completeCommand prints what a word may be completed to, for the scripts.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"The words of the command line after perdure; the last one is completed."`
}

// completePatience is how long a server may take to say what it has.
const completePatience = 2 * time.Second

func (k completeCommand) Run(ctx context.Context, model *kong.Kong, c *console) error {
	ctx, cancel := context.WithTimeout(ctx, completePatience)
	defer cancel()
	words := k.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, found := range complete(ctx, model.Model.Node, words) {
		fmt.Fprintf(c.out, "%s\t%s\n", found.word, view.Line(firstLine(found.means)))
	}
	return nil
}

// A candidate is what a word may be completed to.
type candidate struct{ word, means string }

// complete finds the candidates for the last word.
func complete(ctx context.Context, root *kong.Node, words []string) []candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	at := follow(root, words[:len(words)-1])
	var all []candidate
	switch {
	case at.flag != nil:
		values := at.flag.EnumSlice()
		if at.flag.Name == "example" {
			values = libraryNames()
		}
		for _, value := range values {
			if value != "" {
				all = append(all, candidate{value, ""})
			}
		}
	case strings.HasPrefix(last, "-"):
		for _, group := range at.node.AllFlags(true) {
			for _, f := range group {
				all = append(all, candidate{"--" + f.Name, f.Help})
			}
		}
	default:
		for _, child := range at.node.Children {
			if !child.Hidden && at.args == 0 {
				all = append(all, candidate{child.Name, child.Help})
			}
		}
		all = append(all, at.values(ctx)...)
	}
	return slices.DeleteFunc(all, func(f candidate) bool {
		return !strings.HasPrefix(f.word, last) || view.ShellWord(f.word) != f.word // a shell would read it as something else
	})
}

// A cursor is how far the words before the last one lead.
type cursor struct {
	node  *kong.Node
	flag  *kong.Flag // the last word is its value; nil = it is not
	args  int        // positional arguments before it
	first string     // of them
	flags map[string]string
}

func follow(root *kong.Node, words []string) cursor {
	at := cursor{node: root, flags: map[string]string{}}
	for _, word := range words {
		switch {
		case at.flag != nil:
			at.flags[at.flag.Name], at.flag = word, nil
		case strings.HasPrefix(word, "-"):
			name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if f := flagOf(at.node, name); f != nil && given {
				at.flags[f.Name] = value
			} else if f != nil && !f.IsBool() {
				at.flag = f
			}
		default:
			i := slices.IndexFunc(at.node.Children, func(n *kong.Node) bool { return n.Name == word || slices.Contains(n.Aliases, word) })
			if i < 0 {
				if at.args++; at.args == 1 {
					at.first = word
				}
				continue
			}
			at.node = at.node.Children[i]
		}
	}
	return at
}

func flagOf(n *kong.Node, name string) *kong.Flag {
	for _, group := range n.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || f.Short != 0 && string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

// values are those of the argument at the cursor, as far as a running server has them.
func (at cursor) values(ctx context.Context) (found []candidate) {
	server := serverFlags{URL: cmp.Or(at.flags["url"], os.Getenv("PERDURE_URL")), Data: dataDir(at.flags["data"])}
	server.TokenFile = at.flags["token-file"]
	if server.TokenFile == "" {
		server.Token = secrets.Variable("PERDURE_TOKEN")
	}
	switch path := strings.Join(names(at.node)[1:], " "); {
	case path == "call" && at.args > 0:
		return at.argumentsOf(ctx, server)
	case path == "publish":
		return at.toPublish()
	case path == "definitions diff" && at.args < 2, at.args == 0 && slices.Contains([]string{"definitions show", "definitions deprecate", "definitions history", "graph"}, path):
		return compositesOf(ctx, server)
	case at.args > 0:
		return nil
	case path == "explain":
		for _, name := range checkNames() {
			found = append(found, candidate{name, explanations(name)[0].Means})
		}
	case path == "call" || path == "tools show":
		of, err := server.target()
		if err != nil {
			return nil
		}
		tools, _ := shownTools(ctx, of)
		for _, t := range tools {
			found = append(found, candidate{t.Name, t.Description})
		}
	case strings.HasPrefix(path, "runs ") && len(at.node.Positional) > 0 || path == "approvals open" || path == "script promote":
		return runIDs(ctx, at.flags)
	}
	return found
}

// toPublish are the composite tools of --config; without it files are published.
func (at cursor) toPublish() (found []candidate) {
	if at.flags["config"] == "" {
		return nil
	}
	loaded, _ := config.Load(config.Sources{Config: at.flags["config"]})
	if loaded == nil {
		return nil
	}
	for _, d := range loaded.Definitions {
		found = append(found, candidate{d.Name, d.Description})
	}
	return found
}

// compositesOf are the composite tools of a server.
func compositesOf(ctx context.Context, server serverFlags) (found []candidate) {
	of, err := server.target()
	if err != nil {
		return nil
	}
	status, err := fetchStatus(ctx, of)
	if err != nil {
		return nil
	}
	for _, composite := range status.Composites {
		found = append(found, candidate{composite.Name, stateOf(composite)})
	}
	return found
}

// argumentsOf are the arguments of the tool that is called.
func (at cursor) argumentsOf(ctx context.Context, server serverFlags) (found []candidate) {
	of, err := server.target()
	if err != nil {
		return nil
	}
	tools, _ := shownTools(ctx, of)
	i := slices.IndexFunc(tools, func(t remoteTool) bool { return t.Name == at.first })
	if i < 0 {
		return nil
	}
	for _, p := range parameters(tools[i].InputSchema) {
		found = append(found, candidate{p.Name + "=", p.description()})
	}
	return found
}

func runIDs(ctx context.Context, flags map[string]string) (found []candidate) {
	f := temporalFlags{Data: dataDir(flags["data"]), connectionFlags: connectionFlags{Address: flags["address"], Namespace: flags["namespace"]}}
	rc, done, err := f.runsClient(ctx)
	if err != nil {
		return nil
	}
	defer done()
	list, _ := rc.List(ctx, runs.Filter{})
	for _, run := range list {
		found = append(found, candidate{string(run.ID), string(run.Status) + ", started " + run.Started.Local().Format(time.DateTime)})
	}
	return found
}
