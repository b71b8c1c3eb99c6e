package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// Limits of what is shown.
const (
	maxShown   = 64 << 10 // bytes of arguments or of a result
	maxExcerpt = 240      // bytes of a question in a list
)

// sentScript is the tool with which agents send scripts.
const sentScript = "execute_tool_script"

// A question is an elicitation as it is shown.
type question struct {
	ID      string
	Tool    string
	Run     runs.RunID
	Caller  string
	Step    string
	Message string
	Words   wording
	Call    *parkedCall // that it is about; nil = none
	Opened  moment
	Expires moment
	Became  string // of one that is not open any more

	// Of one that the visitor may answer now.
	Form   *entry
	Anchor string // id of its element
	Action string // where the form goes
	Token  string
	Reason string // why an answer was not taken
}

func (in *inbox) question(who auth.Identity, run *runs.Run, e runs.Elicitation) question {
	return question{
		ID: e.ID, Tool: run.Tool, Run: run.ID, Caller: person(who, run.Caller),
		Step: string(e.StepPath), Message: view.Text(e.Message), // HTML cannot have U+0000
		Words: words(e.Kind), Call: in.parkedCall(e),
		Opened: in.moment(e.Opened), Expires: in.moment(e.Expires), Became: became(who, e),
	}
}

// Excerpt is the beginning of the question.
func (q question) Excerpt() string {
	text := strings.Join(strings.Fields(q.Message), " ")
	if len(text) > maxExcerpt {
		text = strings.ToValidUTF8(text[:maxExcerpt], "") + "…"
	}
	return text
}

// A wording is what the answers to a kind of question mean; an answer without
// words is not offered.
type wording struct {
	About                   string // whom or what it is for; "" = the usual
	Accept, Decline, Cancel string
	Hint                    string
}

func words(kind runs.ElicitationKind) wording {
	switch kind {
	case runs.Compensation:
		return wording{About: "a step could not be undone", Accept: "It has been undone by hand", Decline: "Try to undo it again", Cancel: "Leave it as it is"}
	case runs.Reconciliation:
		return wording{About: "a call may or may not have been executed", Accept: "Go on with that", Decline: "Let the step fail"}
	case runs.Credentials:
		return wording{About: "a backend wants a credential", Accept: "It is there, go on", Decline: "Let the step fail",
			Hint: "The run looks from time to time by itself whether the credential is there."}
	}
	return wording{Accept: "Accept", Decline: "Decline", Cancel: "Cancel the elicitation",
		Hint: "To decline is to say no. To cancel is to give no answer; it is not asked again."}
}

// A parkedCall is the call about which a run asks.
type parkedCall struct {
	Tool, Key, Arguments string
	Sent                 moment
}

func (in *inbox) parkedCall(e runs.Elicitation) *parkedCall {
	if e.Call == nil {
		return nil
	}
	return &parkedCall{Tool: e.Call.Tool, Key: e.Call.Key, Arguments: pretty(e.Call.Arguments), Sent: in.moment(e.Call.Sent)}
}

// At puts a question into its place on the page.
func (q question) At(i int) question {
	q.Anchor = fmt.Sprintf("q%d", i)
	return q
}

// became reports what became of a question.
func became(who auth.Identity, e runs.Elicitation) string {
	e.By = person(who, e.By)
	return runs.Decided(e)
}

func person(who auth.Identity, caller string) string {
	switch caller {
	case "":
		return "somebody"
	case who.Caller():
		return "you"
	}
	return caller
}

// show shows a run: what it asks, and what became of what it asked.
func (in *inbox) show(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	if run, ok := in.visible(w, r, who); ok {
		in.showRun(w, r, who, run, http.StatusOK, attempt{})
	}
}

// showAgain shows a run as it is after an answer that was not taken.
func (in *inbox) showAgain(w http.ResponseWriter, r *http.Request, who auth.Identity, status int, tried attempt) {
	if run, ok := in.visible(w, r, who); ok {
		in.showRun(w, r, who, run, status, tried)
	}
}

// An attempt is an answer that was not taken.
type attempt struct {
	question string // ID of the elicitation; "" = there was none
	form     *entry // as it was filled in; nil = anew
	reason   string
}

// showRun shows a run that the visitor may see, as it was a moment ago.
func (in *inbox) showRun(w http.ResponseWriter, r *http.Request, who auth.Identity, run *runs.Run, status int, tried attempt) {
	called, err := in.Runs.CalledWith(r.Context(), run.ID)
	if err != nil {
		in.fail(w, who, run.ID, err)
		return
	}
	data := runData{
		page:      in.page(who, run.Tool),
		ID:        run.ID,
		Tool:      run.Tool,
		Version:   run.Version,
		Status:    strings.ReplaceAll(string(run.Status), "_", " "),
		Caller:    person(who, run.Caller),
		Started:   in.moment(run.Started),
		Arguments: pretty(called.Arguments),
		Path:      Path(run.ID),
	}
	if run.Tool == sentScript { // others are not the callers' business
		data.Script = bounded(runs.NumberedLines(called.Script))
	}
	if run.Closed != nil {
		data.Closed = in.moment(*run.Closed)
		outcome, err := in.Runs.Result(r.Context(), run.ID)
		if err != nil && !errors.Is(err, runs.ErrNotFinished) { // it may have been resumed just now
			in.fail(w, who, run.ID, err)
			return
		}
		data.Result, data.Failure = ended(outcome)
	}
	for _, e := range run.Elicitations {
		q := in.question(who, run, e)
		switch {
		case q.Became != "":
			data.Answered = append(data.Answered, q)
		case in.mayAnswer(who, run, e):
			in.offer(&q, who, e, tried)
			data.Open = append(data.Open, q)
		default:
			data.Others = append(data.Others, q)
		}
		if q.ID == tried.question && q.Form == nil {
			data.Notice = tried.reason
		}
	}
	in.pages.show(w, status, "run", data)
}

// offer gives a question the form with which the visitor can answer it.
func (in *inbox) offer(q *question, who auth.Identity, e runs.Elicitation, tried attempt) {
	q.Action, q.Token = Path(q.Run), in.forms.Sign(in.now(), who.Caller(), string(q.Run), q.ID, e.Digest, e.Round)
	q.Form = newEntry(e.Schema)
	if tried.question != q.ID {
		return
	}
	q.Reason = tried.reason
	if tried.form != nil {
		q.Form = tried.form
		q.Form.explain(tried.reason)
	}
}

// ended reports how a run ended; both are empty while it continues.
func ended(o *runs.Outcome) (result, failure string) {
	switch {
	case o == nil:
		return "", ""
	case o.Failure != nil:
		return "", o.Failure.Text()
	}
	return pretty(o.Output), ""
}

// pretty is JSON for reading, to the digit.
func pretty(raw json.RawMessage) string { return bounded(view.JSON(raw)) }

func bounded(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("\n… and %d bytes more", len(text)-maxShown)
	}
	return text
}

// answer takes the form of a question.
func (in *inbox) answer(w http.ResponseWriter, r *http.Request, who auth.Identity) {
	run, ok := in.visible(w, r, who)
	if !ok {
		return
	}
	free, err := in.readForm(w, r, who, maxAnswer)
	if err != nil {
		in.refuseForm(w, who, err)
		return
	}
	defer free()
	id := r.PostForm.Get("question")
	e, ok := find(run, id)
	if !ok {
		in.showRun(w, r, who, run, http.StatusNotFound, attempt{})
		return
	}
	if !in.mayAnswer(who, run, e) {
		in.pages.problem(w, http.StatusForbidden, who, "This elicitation is not for you to answer.", "Your answer was not taken.")
		return
	}
	answer, tried := in.read(r, who, run, e)
	if tried.reason != "" {
		in.showRun(w, r, who, run, http.StatusUnprocessableEntity, tried)
		return
	}
	in.give(w, r, who, run.ID, answer, tried)
}

func find(run *runs.Run, id string) (runs.Elicitation, bool) {
	for _, e := range run.Elicitations {
		if e.ID == id {
			return e, true
		}
	}
	return runs.Elicitation{}, false
}

// readForm reads a form of at most so many bytes into r.PostForm. free gives back
// what it takes up.
func (in *inbox) readForm(w http.ResponseWriter, r *http.Request, who auth.Identity, most int64) (free func(), err error) {
	body, free, err := in.Bodies.Read(w, r, web.Caller(who.Known(), r), most)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.ParseForm(); err != nil {
		free()
		return nil, err
	}
	return free, nil
}

func (in *inbox) refuseForm(w http.ResponseWriter, who auth.Identity, err error) {
	code, why := web.Refusal(w.Header(), err)
	title := "The form cannot be read."
	switch code {
	case http.StatusRequestEntityTooLarge:
		title = "The answer is too large."
	case http.StatusServiceUnavailable:
		title = "Too many large answers come in at once."
	}
	in.pages.problem(w, code, who, title, "Nothing was done: "+why+".")
}

// read makes an answer of what was entered. Where that does not work, the
// attempt has a reason.
func (in *inbox) read(r *http.Request, who auth.Identity, run *runs.Run, e runs.Elicitation) (runs.Answer, attempt) {
	answer := runs.Answer{ElicitationID: e.ID, Question: e.Digest, Action: r.PostForm.Get("action"), By: who.Caller(), Via: runs.ViaPage}
	tried := attempt{question: e.ID}
	if e.State == "open" { // its schema is kept for as long
		tried.form = newEntry(e.Schema)
		tried.form.fill(r.PostForm)
	}
	if !in.signedFor(r, who, string(run.ID), e.ID, e.Digest, e.Round) {
		tried.reason = "the form was open for too long, or is not from here; please look at it again and send it once more"
		return answer, tried
	}
	if answer.Action == "accept" && tried.form != nil {
		answer.Content, tried.reason = tried.form.content()
	}
	return answer, tried
}

// give gives the answer on, and reports what became of it.
func (in *inbox) give(w http.ResponseWriter, r *http.Request, who auth.Identity, id runs.RunID, answer runs.Answer, tried attempt) {
	// A browser that disconnects must not stop an answer half way.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), answerLimit)
	defer cancel()
	decision, err := in.Runs.Answer(ctx, id, answer)
	var invalid *runs.InvalidAnswerError
	switch {
	case err == nil && decision.Won:
		in.Logger.Info("elicitation answered on the approvals page", "run", id, "elicitation", answer.ElicitationID, "action", answer.Action, "by", answer.By)
		http.Redirect(w, r, Path(id), http.StatusSeeOther)
	case err == nil:
		tried.reason = tooLate(who, decision)
		in.showAgain(w, r, who, http.StatusConflict, tried)
	case errors.As(err, &invalid):
		tried.reason = invalid.Reason
		in.showAgain(w, r, who, http.StatusUnprocessableEntity, tried)
	case errors.Is(err, runs.ErrNoSuchGate):
		tried.reason = "Your answer was not taken: the run has ended or continued without it."
		in.showAgain(w, r, who, http.StatusConflict, tried)
	case errors.Is(err, context.DeadlineExceeded):
		in.pages.problem(w, http.StatusGatewayTimeout, who, "Your answer was sent, but the run has not taken it yet.",
			"Open the page of the run again to see what became of it.")
	default:
		in.fail(w, who, id, err)
	}
}

// deed is an action that was done.
func deed(action string) string {
	switch action {
	case "accept":
		return "accepted"
	case "decline":
		return "declined"
	case "cancel":
		return "cancelled"
	}
	return action
}

// tooLate reports whose answer won.
func tooLate(who auth.Identity, d runs.Decision) string {
	switch d.By {
	case "":
		return "Your answer came too late and was not taken: the time to answer was over."
	case who.Caller():
		return fmt.Sprintf("This elicitation was already %s by you. This answer was not accepted.", deed(d.Action))
	}
	return fmt.Sprintf("Your answer was too late and was not accepted: the elicitation was already %s by %s.", deed(d.Action), d.By)
}
