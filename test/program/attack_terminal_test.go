package program_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/perduretest"
)

// disguisedTransfer asks about an argument that its caller has made up, by a form
// whose order is not that of the alphabet.
const disguisedTransfer = `
compositeTools:
  - name: transfer
    description: Pays.
    timeout: 48h
    parameters:
      type: object
      properties: {to: {type: string}, amount: {type: integer}}
      required: [to, amount]
    steps:
      - id: approval
        type: elicitation
        message: "Pay {{.params.amount}} to {{.params.to}}?"
        schema:
          type: object
          properties:
            reason: {type: string, title: Reason, description: "Why it is paid", minLength: 5}
            account: {type: string, pattern: "^[A-Z]{2}[0-9]+$", patternDescription: a country and digits}
            checks:
              type: array
              items: {type: string, enum: [budget, contract, signature]}
              minItems: 1
            notify: {type: boolean, default: true}
          required: [reason, account, checks]
        timeout: 24h
        onDecline: {action: continue}
    output:
      properties:
        answer: {type: object, description: What was answered, value: "{{toJson .steps.approval.content}}"}
`

// TestAttackTerminal: on a real terminal, what is asked, what runs show has and what
// an error says have marks for what cannot be seen, and nothing from outside steers
// the terminal; the form is in its author's order, and asks again only for the field
// that does not fit.
func TestAttackTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	perduretest.NoError(t, os.WriteFile(filepath.Join(dir, "perdure.yaml"), []byte(disguisedTransfer), 0o600))
	d := startDev(t, dir, "--config", "perdure.yaml")
	arguments := `{"to":"…\u202e54321-\u202c\u200b\u001b[2K\u001b[8m","amount":7}`

	term := startInTerminal(t, d.program("call", "transfer", "--args", arguments))
	for _, field := range []struct{ prompt, typed string }{
		{"[c]ancel? ", "a"},
		{"reason: ", "no"},
		{"reason must have at least 5 characters\n  reason: ", "It is due"},
		{"account: ", "x1"},
		{"account must have the form: a country and digits\n  account: ", "DE1"},
		{"checks (such as 1, 2; 0 for none): ", "0"},
		{"\n  checks (such as 1, 2; 0 for none): ", "3 budget"},
		{"\n  checks (such as 1, 2; 0 for none): ", "3, budget"},
		{"notify (y/n) [Yes]: ", ""},
	} {
		term.shows(field.prompt)
		term.enter(field.typed)
	}
	if err := receive(t, term.ended, "the call to end"); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"Pay 7 to …[U+202E]54321-[U+202C][U+200B][U+001B][2K[U+001B][8m?",
		"reason* – Reason – Why it is paid – at least 5 characters",
		"account* – Form: a country and digits.",
		"[ ] 2. contract",
	} {
		if !strings.Contains(term.text(), want) {
			t.Errorf("the terminal does not show %q", want)
		}
	}
	_, answered, _ := strings.Cut(term.text(), "\n{")
	answered, _, _ = strings.Cut(answered, "\n}")
	answered = "{" + strings.Join(strings.Fields(answered), "") + "}"
	if want := `{"answer":{"account":"DE1","checks":["budget","signature"],"notify":true,"reason":"Itisdue"}}`; answered != want {
		t.Errorf("answered %s, want %s", answered, want)
	}
	onlySteersItself(t, term)

	id := d.runs(t, "transfer")[0].ID
	for _, args := range [][]string{
		{"runs", "show", id}, {"runs", "show", id, "-o", "json"}, {"runs", "logs", id}, {"runs", "list"},
		{"runs", "show", "no\u202e\x1b[2Jbody"}, {"call", "no\u202e\x1b[2Jtool"}, {"call", "transfer", "to=\u202e\x1b[2J"},
	} {
		term := startInTerminal(t, d.program(args...))
		_ = receive(t, term.ended, strings.Join(args, " "))
		onlySteersItself(t, term)
	}
	piped, _, err := d.try(t, "runs", "show", id)
	if err != nil || !strings.Contains(piped, `"to":"…[U+202E]54321-[U+202C]`) || strings.ContainsFunc(piped, view.Hidden) {
		t.Errorf("into a pipe, runs show prints %q, %v", piped, err)
	}
}

// TestAttackTypedAhead: what is typed before a question is on the screen does not
// answer it.
func TestAttackTypedAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	perduretest.NoError(t, os.WriteFile(filepath.Join(dir, "perdure.yaml"), []byte(disguisedTransfer), 0o600))
	d := startDev(t, dir, "--config", "perdure.yaml")
	term := startInTerminal(t, d.program("call", "transfer", "to=me", "amount=7"))
	for _, line := range []string{"a", "It is due", "DE1", "1", ""} {
		term.enter(line)
	}
	term.shows("[c]ancel? ")
	term.enter("d")
	_ = receive(t, term.ended, "the call to end") // it fails: its output is the answer
	if strings.Contains(term.text(), "reason: ") {
		t.Error("a line that was typed before the question was shown has answered it")
	}
}

// ownStyles are the colours and weights that perdure itself sends, and how it takes
// away the lines that it has drawn.
var ownStyles = regexp.MustCompile(`\x1b\[(0|1|2|31|32|33)m|\x1b\[\d+A\r\x1b\[J`)

// onlySteersItself fails if a terminal was sent what is hidden, apart from these.
func onlySteersItself(t *testing.T, term *terminal) {
	t.Helper()
	text := term.text()
	text = ownStyles.ReplaceAllString(text, "")
	if i := strings.IndexFunc(text, view.Hidden); i >= 0 {
		t.Errorf("the terminal is sent %q", text[max(0, i-40):min(len(text), i+40)])
	}
}
