package definitions

import (
	"regexp"
	"slices"

	"github.com/perdure/perdure/definitions/template"
)

// contentName is the name of a content block of a tool's result in its output.
var contentName = regexp.MustCompile(`^(text(_[1-9][0-9]*)?|image_(0|[1-9][0-9]*)|resource(_[1-9][0-9]*)?)$`)

// A tool may give content blocks beside its structured content. The output has the
// structured content, and the blocks that templates name: .steps.read.output.text, or
// .steps.read.content.text, which is the same.

// contentBlocks is the content of a step that calls a tool: the content blocks of its
// output, by name; nil = it has none.
func contentBlocks(output any) any {
	members, _ := output.(map[string]any)
	blocks := map[string]any{}
	//workflowcheck:ignore a map again
	for name, block := range members {
		if contentName.MatchString(name) {
			blocks[name] = block
		}
	}
	if len(blocks) == 0 {
		return nil
	}
	return blocks
}

// noteBeside finds the content blocks that the templates name, by step: those of other
// steps, and those of the step itself that its compensation and its collect read.
func (p *Program) noteBeside() {
	p.namedIn(p.OutputBlock.templates())
	for _, n := range p.Steps {
		for node := n; node != nil; node = node.Inner {
			p.namedIn(node.templates())
			node.namedOfOwn(node.Templates.Compensation.Templates())
			if node.Inner != nil {
				node.Inner.namedOfOwn([]*template.Template{node.Templates.Collect})
			}
		}
	}
}

// namedIn notes the blocks of steps that templates name.
func (p *Program) namedIn(read []*template.Template) {
	for _, t := range read {
		for _, ref := range t.Refs() {
			if ref.Root != "steps" || len(ref.Path) <= 2 || ref.Path[1] != "output" && ref.Path[1] != "content" {
				continue
			}
			if i := slices.IndexFunc(p.Steps, func(n *Node) bool { return n.ID == ref.Path[0] }); i >= 0 {
				p.Steps[i].named(ref.Path[2])
			}
		}
	}
}

// namedOfOwn notes the blocks of the step that templates name, which see its output as
// .output.
func (n *Node) namedOfOwn(read []*template.Template) {
	for _, t := range read {
		for _, ref := range t.Refs() {
			if ref.Root == "output" && len(ref.Path) > 0 {
				n.named(ref.Path[0])
			}
		}
	}
}

func (n *Node) named(block string) {
	if contentName.MatchString(block) && !slices.Contains(n.beside, block) {
		n.beside = append(n.beside, block)
	}
}

// Beside names the content blocks that the output of a call has beside the structured
// content, since templates read them. path is that of the call: of a step, or of an item
// of a forEach.
func (p *Program) Beside(path StepPath) []string {
	if n, _ := p.At(path); n != nil && n.Script == nil {
		return n.beside
	}
	return nil
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
