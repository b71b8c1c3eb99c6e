package template

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// A parsed template is checked and rewritten before use: checkTrees finds mistakes that
// need no data, and rewriteList passes every printed value and every field through
// our own functions.

// checkTrees checks main and the templates that it defines.
func checkTrees(text string, main *parse.Tree, trees map[string]*parse.Tree) *SyntaxError {
	if err := checkNode(text, main.Root, trees); err != nil {
		return err
	}
	for _, name := range SortedKeys(trees) {
		if err := checkNode(text, trees[name].Root, trees); err != nil {
			return err
		}
	}
	return checkRecursion(trees)
}

// checkNode checks a node and what is in it.
func checkNode(text string, node parse.Node, trees map[string]*parse.Tree) *SyntaxError {
	var found *SyntaxError
	inspect(node, func(node parse.Node) bool {
		if found != nil {
			return false
		}
		switch node := node.(type) {
		case *parse.IdentifierNode:
			found = checkFunction(node)
		case *parse.PipeNode:
			for i, cmd := range node.Cmds {
				if found == nil {
					found = checkCommand(text, cmd, i > 0)
				}
			}
		case *parse.TemplateNode:
			if trees[node.Name] == nil {
				found = &SyntaxError{Offset: int(node.Pos), Message: fmt.Sprintf("template %q is not defined", node.Name)}
			}
		}
		return found == nil
	})
	return found
}

func checkFunction(node *parse.IdentifierNode) *SyntaxError {
	if isFunction(node.Ident) {
		return nil
	}
	return &SyntaxError{Offset: int(node.Pos), Message: unknownFunction(node.Ident), Word: node.Ident}
}

// checkCommand checks the number of arguments. Only functions take any: a
// field with arguments would be a method call on a Go value.
func checkCommand(text string, cmd *parse.CommandNode, piped bool) *SyntaxError {
	args := len(cmd.Args) - 1
	if piped {
		args++
	}
	if id, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
		if !isFunction(id.Ident) {
			return checkFunction(id)
		}
		if message := arity(id.Ident, args); message != "" {
			found := &SyntaxError{Offset: int(id.Pos), Message: message}
			if args == 0 {
				found.Word = id.Ident
			}
			return found
		}
		return nil
	}
	if args > 0 {
		return &SyntaxError{Offset: int(cmd.Pos), Message: fmt.Sprintf("%s is not a function and takes no arguments%s", cmd.Args[0], meantExpression(text, int(cmd.Pos)))}
	}
	return nil
}

// checkRecursion refuses templates that call themselves, directly or not.
func checkRecursion(trees map[string]*parse.Tree) *SyntaxError {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(name string) *SyntaxError
	visit = func(name string) (found *SyntaxError) {
		state[name] = visiting
		inspect(trees[name].Root, func(node parse.Node) bool {
			call, ok := node.(*parse.TemplateNode)
			if !ok || found != nil {
				return found == nil
			}
			switch state[call.Name] {
			case visiting:
				found = &SyntaxError{Offset: int(call.Pos), Message: fmt.Sprintf("template %q calls itself", call.Name)}
			case 0:
				found = visit(call.Name)
			}
			return false
		})
		state[name] = done
		return found
	}
	for _, name := range SortedKeys(trees) {
		if state[name] == 0 {
			if err := visit(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// inspect calls visit for node and, if that gives true, for its children.
func inspect(node parse.Node, visit func(parse.Node) bool) {
	if !visit(node) {
		return
	}
	switch node := node.(type) {
	case *parse.ListNode:
		for _, child := range node.Nodes {
			inspect(child, visit)
		}
	case *parse.ActionNode:
		inspect(node.Pipe, visit)
	case *parse.TemplateNode:
		if node.Pipe != nil {
			inspect(node.Pipe, visit)
		}
	case *parse.PipeNode:
		for _, cmd := range node.Cmds {
			inspect(cmd, visit)
		}
	case *parse.CommandNode:
		for _, arg := range node.Args {
			inspect(arg, visit)
		}
	case *parse.ChainNode:
		inspect(node.Node, visit)
	default:
		if branch := branchOf(node); branch != nil {
			inspect(branch.Pipe, visit)
			inspect(branch.List, visit)
			if branch.ElseList != nil {
				inspect(branch.ElseList, visit)
			}
		}
	}
}

// branchOf gives what if, range and with have in common; nil for other nodes.
func branchOf(node parse.Node) *parse.BranchNode {
	switch node := node.(type) {
	case *parse.IfNode:
		return &node.BranchNode
	case *parse.RangeNode:
		return &node.BranchNode
	case *parse.WithNode:
		return &node.BranchNode
	}
	return nil
}

// rewriteList rewrites the nodes of a list.
func rewriteList(list *parse.ListNode) {
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.ActionNode:
			rewritePipe(node.Pipe)
			if len(node.Pipe.Decl) == 0 {
				node.Pipe.Cmds = append(node.Pipe.Cmds, functionCall(node.Pos, printFunc))
			}
		case *parse.TemplateNode:
			if node.Pipe != nil {
				rewritePipe(node.Pipe)
			}
		default:
			rewriteBranch(node)
		}
	}
}

func rewriteBranch(node parse.Node) {
	branch := branchOf(node)
	if branch == nil {
		return
	}
	rewritePipe(branch.Pipe)
	rewriteList(branch.List)
	if branch.ElseList != nil {
		rewriteList(branch.ElseList)
	}
	if node.Type() == parse.NodeRange {
		branch.Pipe.Cmds = append(branch.Pipe.Cmds, functionCall(branch.Pos, rangeFunc))
		branch.List.Nodes = append([]parse.Node{loopTurn()}, branch.List.Nodes...)
	}
}

func rewritePipe(pipe *parse.PipeNode) {
	for _, cmd := range pipe.Cmds {
		if len(cmd.Args) == 1 {
			if field := fieldCall(cmd.Args[0]); field != nil {
				cmd.Args = field.Args
				continue
			}
		}
		for i, arg := range cmd.Args {
			cmd.Args[i] = rewriteOperand(arg)
		}
	}
}

func rewriteOperand(node parse.Node) parse.Node {
	if pipe, ok := node.(*parse.PipeNode); ok {
		rewritePipe(pipe)
		return pipe
	}
	field := fieldCall(node)
	if field == nil {
		return node
	}
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: node.Position(), Cmds: []*parse.CommandNode{field}}
}

// fieldCall gives the call that reads the fields that node names; nil if it
// names none.
func fieldCall(node parse.Node) *parse.CommandNode {
	switch node := node.(type) {
	case *parse.FieldNode:
		dot := &parse.DotNode{NodeType: parse.NodeDot, Pos: node.Pos}
		return readField(node.Pos, dot, node.Ident)
	case *parse.VariableNode:
		if len(node.Ident) == 1 {
			return nil
		}
		variable := &parse.VariableNode{NodeType: parse.NodeVariable, Pos: node.Pos, Ident: node.Ident[:1]}
		return readField(node.Pos, variable, node.Ident[1:])
	case *parse.ChainNode:
		return readField(node.Pos, rewriteOperand(node.Node), node.Field)
	}
	return nil
}

func readField(pos parse.Pos, base parse.Node, path []string) *parse.CommandNode {
	name := strings.Join(path, ".")
	return functionCall(pos, fieldFunc, base, &parse.StringNode{NodeType: parse.NodeString, Pos: pos, Quoted: "." + name, Text: name})
}

func functionCall(pos parse.Pos, function string, args ...parse.Node) *parse.CommandNode {
	id := parse.NewIdentifier(function).SetPos(pos)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: append([]parse.Node{id}, args...)}
}

// loopTurn gives a node that writes nothing, so that expansion.Write counts turns.
func loopTurn() parse.Node { return &parse.TextNode{NodeType: parse.NodeText} }
