package definitions

import (
	"regexp"
	"slices"

	"github.com/perdure/perdure/definitions/template"
)

// contentName is the name of a content block of a tool's result in its output.
var contentName = regexp.MustCompile(`^(text(_[1-9][0-9]*)?|image_(0|[1-9][0-9]*)|resource(_[1-9][0-9]*)?)$`)

// A tool may give content blocks beside its structured content. The output has the
// structured content, and the blocks that templates name: .steps.read.output.text.

// noteBeside finds the content blocks that the templates name, by step.
func (p *Program) noteBeside() {
	read := p.OutputBlock.templates()
	for _, n := range p.Steps {
		for node := n; node != nil; node = node.Inner {
			read = append(read, node.templates()...)
		}
	}
	for _, t := range read {
		for _, ref := range t.Refs() {
			if ref.Root == "steps" && len(ref.Path) > 2 && ref.Path[1] == "output" {
				p.named(ref.Path[0], ref.Path[2])
			}
		}
	}
}

func (p *Program) named(id, block string) {
	i := slices.IndexFunc(p.Steps, func(n *Node) bool { return n.ID == id })
	if i >= 0 && contentName.MatchString(block) && !slices.Contains(p.Steps[i].beside, block) {
		p.Steps[i].beside = append(p.Steps[i].beside, block)
	}
}

// Beside names the content blocks that a step's output has beside the structured
// content, since templates read them. path is that of the call.
func (p *Program) Beside(path StepPath) []string {
	i := slices.IndexFunc(p.Steps, func(n *Node) bool { return n.ID == string(path) })
	if i < 0 {
		return nil
	}
	return p.Steps[i].beside
}

// templates gives those of all properties.
func (o *OutputBlock) templates() []*template.Template {
	if o == nil {
		return nil
	}
	return propertyTemplates(o.Properties)
}

func propertyTemplates(properties []OutputProperty) (all []*template.Template) {
	for _, p := range properties {
		if p.Template != nil {
			all = append(all, p.Template)
		}
		all = append(all, propertyTemplates(p.Inner)...)
	}
	return all
}
