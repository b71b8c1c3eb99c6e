package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
)

// A terminalForm shows a person the elicitations of a run, one at a time.
type terminalForm struct {
	in   io.Reader
	out  io.Writer
	mark func(style, string) string
	fold func(string) string // breaks text between words

	atOnce bool // in is a terminal: input typed before an elicitation was shown is dropped

	mu    sync.Mutex // one elicitation at a time
	lines func() <-chan string
}

// newConsoleForm asks at the terminal of a command.
func newConsoleForm(c *console) *terminalForm {
	f := newTerminalForm(c.in, c.err, c.errStyle)
	f.atOnce = c.inTerminal
	f.fold = func(text string) string { return c.prose(text, c.errTerminal) }
	return f
}

// newTerminalForm reads answers from in, a line each.
func newTerminalForm(in io.Reader, out io.Writer, mark func(style, string) string) *terminalForm {
	return &terminalForm{in: in, out: out, mark: mark, fold: func(text string) string { return text }, lines: sync.OnceValue(func() <-chan string {
		lines := make(chan string)
		go func() {
			defer close(lines)
			scanner := bufio.NewScanner(in)
			for scanner.Scan() {
				lines <- scanner.Text()
			}
		}()
		return lines
	})}
}

// Elicit shows one elicitation as a form. The end of the input cancels it.
func (f *terminalForm) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q, err := questionOf(request)
	if err != nil {
		return nil, err
	}
	f.forget()
	fmt.Fprintf(f.out, "\n%s\n", f.mark(bold, f.fold(view.Text(request.Params.Message))))
	for _, field := range q.form.Fields {
		fmt.Fprintln(f.out, f.fold("  "+describeField(field, "  ")))
	}
	for {
		action, err := f.action(ctx)
		if err != nil || action != mcp.ElicitationResponseActionAccept {
			return answer(action, nil), err
		}
		content, err := f.fill(ctx, q)
		if err != nil {
			return answer(mcp.ElicitationResponseActionCancel, nil), ignoreEnd(err)
		}
		if err := q.check(content); err != nil {
			f.complain(err)
			continue
		}
		return answer(action, content), nil
	}
}

// forget drops lines that cannot be meant for the next prompt: typed too early,
// pasted, or for an elicitation that has ended meanwhile.
func (f *terminalForm) forget() {
	if !f.atOnce {
		return
	}
	forgetTyped(f.in)
	select {
	case <-f.lines(): // a line read ahead
	default:
	}
}

// A question is an elicitation with its schema as it was sent.
type question struct {
	schema    json.RawMessage
	form      *view.Form
	unchecked bool // content need not fit the schema
}

func questionOf(request mcp.ElicitationRequest) (question, error) {
	schema, err := exactSchema(request.Params.RequestedSchema)
	if err != nil {
		return question{}, err
	}
	meta := request.Params.Meta
	return question{schema: schema, form: view.NewForm(schema), unchecked: meta != nil && meta.AdditionalFields[uncheckedMeta] == true}, nil
}

// check returns why content does not fit the schema; nil if it fits or need not.
func (q question) check(content json.RawMessage) error {
	if q.unchecked {
		return nil
	}
	return definitions.CheckAnswer(q.schema, content)
}

func answer(action mcp.ElicitationResponseAction, content json.RawMessage) *mcp.ElicitationResult {
	result := &mcp.ElicitationResult{}
	result.Action = action
	if content != nil {
		result.Content = content
	}
	return result
}

// action asks for accept, decline or cancel.
func (f *terminalForm) action(ctx context.Context) (mcp.ElicitationResponseAction, error) {
	for {
		line, err := f.ask(ctx, "[a]ccept, [d]ecline or [c]ancel? ")
		if err != nil {
			return mcp.ElicitationResponseActionCancel, ignoreEnd(err)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "a", "accept", "y", "yes":
			return mcp.ElicitationResponseActionAccept, nil
		case "d", "decline", "n", "no":
			return mcp.ElicitationResponseActionDecline, nil
		case "c", "cancel":
			return mcp.ElicitationResponseActionCancel, nil
		}
	}
}

// fill asks for the fields.
func (f *terminalForm) fill(ctx context.Context, q question) (json.RawMessage, error) {
	values := map[*view.Field]json.RawMessage{}
	for _, field := range q.form.Fields {
		value, err := f.field(ctx, field, q.unchecked)
		if err != nil {
			return nil, err
		}
		values[field] = value
	}
	return q.form.Answer(func(field *view.Field) json.RawMessage { return values[field] }), nil
}

// field asks for one field until the answer fits; nil = left out.
func (f *terminalForm) field(ctx context.Context, field *view.Field, unchecked bool) (json.RawMessage, error) {
	for {
		line, err := f.ask(ctx, "  "+promptOf(field))
		if err != nil {
			return nil, err
		}
		value, err := readField(field, strings.TrimSpace(line))
		if err == nil && !unchecked {
			err = field.Check(value)
		}
		if err == nil {
			return value, nil
		}
		f.complain(fmt.Errorf("%s %w", view.Line(field.Name), err))
	}
}

func (f *terminalForm) complain(err error) {
	fmt.Fprintln(f.out, f.fold("  "+f.mark(red, view.Line(err.Error()))))
}

// ask prints a prompt and reads a line; io.EOF when there are no more.
func (f *terminalForm) ask(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(f.out, prompt)
	select {
	case line, ok := <-f.lines():
		if !ok {
			fmt.Fprintln(f.out)
			return "", io.EOF
		}
		return line, nil
	case <-ctx.Done():
		fmt.Fprintln(f.out)
		return "", ctx.Err()
	}
}

func ignoreEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// A fixedAnswer gives every elicitation the same answer, for scripts.
type fixedAnswer struct {
	action  mcp.ElicitationResponseAction
	content json.RawMessage // empty = no fields
}

// Elicit refuses to send content that does not fit: the server would ask again for
// ever.
func (f fixedAnswer) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	if f.action != mcp.ElicitationResponseActionAccept {
		return answer(f.action, nil), nil
	}
	q, err := questionOf(request)
	if err != nil {
		return nil, err
	}
	content := f.content
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	if err := q.check(content); err != nil {
		return nil, &unfitContentError{question: request.Params.Message, reason: err}
	}
	return answer(f.action, content), nil
}

// An unfitContentError is why --content was not sent as an answer.
type unfitContentError struct {
	question string
	reason   error
}

func (e *unfitContentError) Error() string {
	return fmt.Sprintf("--content does not fit %q: %v; the run still waits for an answer, see perdure runs list --waiting", e.question, e.reason)
}
