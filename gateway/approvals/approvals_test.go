package approvals_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway/approvals"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/workflows"
)

const everyField = `{"type":"object","properties":{
	"line":{"type":"string","title":"A line","description":"Words","minLength":2,"maxLength":20},
	"lines":{"type":"string"},
	"mail":{"type":"string","format":"email"},
	"page":{"type":"string","format":"uri"},
	"day":{"type":"string","format":"date"},
	"time":{"type":"string","format":"date-time"},
	"count":{"type":"integer","minimum":1,"maximum":18014398509481985,"default":9007199254740993},
	"price":{"type":"number","exclusiveMinimum":0},
	"sure":{"type":"boolean","default":true},
	"maybe":{"type":"boolean"},
	"color":{"type":"string","enum":["red","blue"],"enumNames":["Red as fire","Blue"],"default":"blue"},
	"size":{"oneOf":[{"const":1,"title":"Small"},{"const":9007199254740993,"title":"Huge"}]},
	"many":{"type":"integer","enum":[1,2,3,4,5,6,7]},
	"tags":{"type":"array","items":{"type":"string","enum":["a","b","c"]},"minItems":1,"maxItems":2,"default":["a"]},
	"names":{"type":"array","items":{"anyOf":[{"const":"x","title":"Ex"},{"const":"y","title":"Why"}]}}
},"required":["line","tags"]}`

func TestEveryField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", everyField)))
	b := w.open("alice")
	_, page := b.get("/approvals/deploy/1")
	has(t, page,
		`<label for="q0-f0"><bdi>A line</bdi></label>`, `Words – at least 2 characters, at most 20 characters`,
		`type="email"`, `type="url"`, `type="date"`, `2026-01-31T09:00:00Z`, `<textarea`,
		`value="9007199254740993" inputmode="decimal"`, `a whole number, at least 1, at most 18014398509481985`, `more than 0`,
		`Red as fire`, `Huge`, `<select`, `type="checkbox"`, `at least 1 of them, at most 2 of them`, `Why`,
		`<span class="needed">(optional)</span>`)
	at := 0
	for _, label := range []string{"A line", "lines", "mail", "page", "day", "time", "count", "price", "sure", "maybe", "color", "size", "many", "tags", "names"} {
		i := strings.Index(page[at:], "<bdi>"+label+"</bdi>")
		if i < 0 {
			t.Fatalf("%s is not in the author's order:\n%s", label, page)
		}
		at += i
	}
	if n := strings.Count(page, " checked>"); n != 5 { // sure, color and tags by default, no answer to maybe and size
		t.Errorf("%d choices are made", n)
	}
	status, page := b.answer("deploy/1", "ask#1", "accept", url.Values{
		"line": {"two words"}, "lines": {"one\r\ntwo"}, "mail": {"a@example.com"}, "page": {"https://example.com/"},
		"day": {"2026-11-22"}, "time": {"2026-11-22T06:00:00Z"}, "count": {" 9007199254740993 "}, "price": {"0.10"},
		"sure": {"1"}, "maybe": {""}, "color": {"0"}, "size": {"1"}, "many": {"6"}, "tags": {"0", "2"},
	})
	if status != http.StatusOK {
		t.Fatalf("HTTP %d: %s", status, page)
	}
	has(t, page, "accepted by you")
	want := `{"color":"red","count":9007199254740993,"day":"2026-11-22","line":"two words","lines":"one\ntwo","mail":"a@example.com",` +
		`"many":7,"page":"https://example.com/","price":0.10,"size":9007199254740993,"sure":false,"tags":["a","c"],"time":"2026-11-22T06:00:00Z"}`
	taken := w.runs.taken()
	if len(taken) != 1 || taken[0].By != "alice" || taken[0].Via != runs.ViaPage {
		t.Fatalf("taken is %+v", taken)
	}
	if diff := cmp.Diff(sorted(t, want), sorted(t, string(taken[0].Content))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	has(t, string(taken[0].Content), `"price":0.10`, `"count":9007199254740993`)
}

// TestDefaults: what has a default is filled in with it, offers no other way to be
// omitted, and reports what counts if it is.
func TestDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", `{"type":"object","properties":{
		"note":{"type":"string","default":"none"},"count":{"type":"integer","default":5},"notify":{"type":"boolean","default":true},
		"size":{"type":"string","enum":["s","m"],"default":"m"},"tags":{"type":"array","items":{"enum":["a","b"]},"default":["a"]},
		"code":{"type":"string","pattern":"^[A-Z]{3}$","patternDescription":"three capital letters"}}}`)))
	b := w.open("alice")
	_, page := b.get("/approvals/deploy/1")
	has(t, page, "\nnone</textarea>", `value="5"`, "a whole number – if left empty: 5", "three capital letters")
	hasNot(t, page, "No answer", "[A-Z]")
	status, page := b.answer("deploy/1", "ask#1", "accept", url.Values{"note": {""}, "count": {""}, "notify": {"1"}, "size": {"0"}, "code": {"abc"}})
	if status != http.StatusUnprocessableEntity {
		t.Errorf("HTTP %d %s", status, page)
	}
	has(t, page, "code must have the form: three capital letters")
	b.answer("deploy/1", "ask#1", "accept", url.Values{"note": {""}, "count": {""}, "notify": {"1"}, "size": {"0"}})
	if got := string(w.runs.taken()[0].Content); got != `{"note":"","notify":false,"size":"s","tags":[]}` {
		t.Errorf("answered %s", got)
	}
}

// sorted is JSON with members in order, and numbers as they are.
func sorted(t *testing.T, text string) string {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	b := perduretest.Must(json.Marshal(v))(t)
	return string(b)
}

// TestWhatIsLeftOut: what was not entered is not in the answer, but for a list
// that is required.
func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", `{"type":"object","properties":{
		"s":{"type":"string"},"n":{"type":"number"},"b":{"type":"boolean"},"e":{"enum":["x"]},
		"list":{"type":"array","items":{"enum":["a"]}},"must":{"type":"array","items":{"enum":["a"]}}},"required":["must"]}`)))
	b := w.open("alice")
	if status, page := b.answer("deploy/1", "ask#1", "accept", nil); status != http.StatusOK {
		t.Fatalf("HTTP %d: %s", status, page)
	}
	if got := string(w.runs.taken()[0].Content); got != `{"must":[]}` {
		t.Errorf("answered %s", got)
	}
}

func TestAnswerThatDoesNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", `{"type":"object","properties":{
		"count":{"type":"integer","maximum":10},"why":{"type":"string","title":"Reason"},"how":{"type":"string","enum":["slow","fast"]}},"required":["why"]}`)))
	b := w.open("alice")
	tests := []struct {
		name   string
		fields url.Values
		want   []string
	}{
		{"missing", url.Values{"count": {"7"}, "how": {"1"}}, []string{`The answer was not taken: why is required`, `Reason is required`, `value="7"`, `value="1" checked`, `aria-invalid="true"`}},
		{"too large", url.Values{"why": {"it is <time>"}, "count": {"11"}}, []string{`count must be at most 10`, `value="11"`, "it is &lt;time&gt;</textarea>"}},
		{"no number", url.Values{"why": {"y"}, "count": {"0x1f"}}, []string{`count must be a number`, `value="0x1f"`}},
		{"a fraction", url.Values{"why": {"y"}, "count": {"1.5"}}, []string{`count must be integer`, `value="1.5"`}},
		{"no choice of these", url.Values{"count": {"2"}, "how": {"17"}}, []string{`why is required`}},
	}
	for _, tt := range tests {
		status, page := b.answer("deploy/1", "ask#1", "accept", tt.fields)
		if status != http.StatusUnprocessableEntity {
			t.Errorf("%s: HTTP %d", tt.name, status)
		}
		has(t, page, append(tt.want, `role="alert"`)...)
	}
	if taken := w.runs.taken(); len(taken) > 0 {
		t.Errorf("taken: %+v", taken)
	}
	if status, _ := b.answer("deploy/1", "ask#1", "perhaps", nil); status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown action: HTTP %d", status)
	}
	// To decline takes no fields.
	if status, page := b.answer("deploy/1", "ask#1", "decline", url.Values{"count": {"x"}}); status != http.StatusOK {
		t.Errorf("HTTP %d: %s", status, page)
	}
	if taken := w.runs.taken(); len(taken) != 1 || taken[0].Action != "decline" || taken[0].Content != nil {
		t.Errorf("taken: %+v", taken)
	}
}

func TestTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", "")))
	alice, carol := w.open("alice"), w.open("carol")
	late, twice := alice.form("deploy/1", "ask#1", "accept"), carol.form("deploy/1", "ask#1", "decline")
	if status, _ := carol.post("/approvals/deploy/1", twice); status != http.StatusOK {
		t.Fatalf("HTTP %d", status)
	}
	status, page := alice.post("/approvals/deploy/1", late)
	if status != http.StatusConflict {
		t.Errorf("too late: HTTP %d", status)
	}
	has(t, page, "Your answer was too late and was not accepted: the elicitation was already declined by carol.", "declined by carol")
	status, page = carol.post("/approvals/deploy/1", twice)
	if status != http.StatusConflict {
		t.Errorf("sent twice: HTTP %d", status)
	}
	has(t, page, "This elicitation was already declined by you.")
	if taken := w.runs.taken(); len(taken) != 1 {
		t.Errorf("taken: %+v", taken)
	}

	d := w.runs.add(run("deploy/2", "alice", gate("ask#1", "Deploy?", "")))
	late = alice.form("deploy/2", "ask#1", "accept")
	d.Elicitations[0].State, d.Status = "dropped", "failed"
	now := time.Now()
	d.Closed, d.Outcome = &now, &runs.Outcome{Failure: &runs.Failure{Error: runs.Error{Message: "step b <broke>"}}}
	status, page = alice.post("/approvals/deploy/2", late)
	if status != http.StatusConflict {
		t.Errorf("after the end: HTTP %d", status)
	}
	has(t, page, "the run has ended or continued without it", "step b &lt;broke&gt;", "without an answer")
}

// A form that was sent before its run was reset, and is sent again after that, does not
// answer the same question that is asked anew.
func TestAttackFormOfBeforeAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := gate("ask#1", "Deploy?", "")
	asked.Digest, asked.State = "deploy", "open"
	d := w.runs.add(run("deploy/1", "alice", asked))
	alice := w.open("alice")
	sent := alice.form("deploy/1", "ask#1", "accept")
	if status, _ := alice.post("/approvals/deploy/1", sent); status != http.StatusOK {
		t.Fatalf("HTTP %d", status)
	}
	asked.Round = "another"
	d.Elicitations[0] = asked
	status, page := alice.post("/approvals/deploy/1", sent)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("HTTP %d", status)
	}
	has(t, page, "please look at it again")
	if taken := w.runs.taken(); len(taken) != 1 || taken[0].Question != asked.Digest {
		t.Errorf("taken: %+v", taken)
	}
	if status, _ := alice.post("/approvals/deploy/1", alice.form("deploy/1", "ask#1", "decline")); status != http.StatusOK {
		t.Errorf("what was asked anew: HTTP %d", status)
	}
}

func TestOthersSeeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Alice's secret?", "")))
	bob := w.open("bob")
	form := w.open("alice").form("deploy/1", "ask#1", "accept")
	for path, get := range map[string]func() (int, string){
		"there": func() (int, string) { return bob.get("/approvals/deploy/1") },
		"none":  func() (int, string) { return bob.get("/approvals/deploy/none") },
		"post":  func() (int, string) { return bob.post("/approvals/deploy/1", form) },
	} {
		status, page := get()
		if status != http.StatusNotFound {
			t.Errorf("%s: HTTP %d", path, status)
		}
		has(t, page, "There is no such run of yours.")
		hasNot(t, page, "secret", "alice")
	}
	if _, page := bob.get("/approvals"); !strings.Contains(page, "Nothing waits for your answer.") {
		t.Errorf("bob's list: %s", page)
	}
	stranger := w.open("")
	status, page := stranger.get("/approvals/deploy/1")
	if status != http.StatusOK || !strings.Contains(page, `name="to" value="/approvals/deploy/1"`) {
		t.Errorf("a stranger is not asked to sign in: HTTP %d %s", status, page)
	}
	hasNot(t, page, "secret")
	if status, _ := stranger.post("/approvals/deploy/1", form); status != http.StatusUnauthorized {
		t.Errorf("a stranger's answer: HTTP %d", status)
	}
	if taken := w.runs.taken(); len(taken) > 0 {
		t.Errorf("taken: %+v", taken)
	}
}

// TestWhoMayAnswer: approvers answer questions, operators decide what becomes of steps
// that could not be undone.
func TestWhoMayAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	repair := gate("pay/compensate#1", "pay could not be undone.", "")
	repair.Kind = "compensation"
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", ""), repair))
	carol, olga, alice := w.open("carol"), w.open("olga"), w.open("alice")
	_, page := carol.get("/approvals/deploy/1")
	has(t, page, "Accept</button>", "waits for somebody else")
	hasNot(t, page, "undone by hand")
	_, page = olga.get("/approvals/deploy/1")
	has(t, page, "It has been undone by hand", "Try to undo it again", "Leave it as it is", "waits for somebody else")
	hasNot(t, page, "Accept</button>")
	_, page = olga.get("/approvals")
	has(t, page, "a step could not be undone", "called by alice")
	hasNot(t, page, "Deploy?")

	form := carol.form("deploy/1", "ask#1", "accept")
	form.Set("question", "pay/compensate#1")
	for name, b := range map[string]*browser{"approver": carol, "caller": alice} {
		if status, _ := b.post("/approvals/deploy/1", form); status != http.StatusForbidden {
			t.Errorf("%s repairs: HTTP %d", name, status)
		}
	}
	if status, _ := olga.answer("deploy/1", "pay/compensate#1", "decline", nil); status != http.StatusOK {
		t.Errorf("operator: HTTP %d", status)
	}
	if taken := w.runs.taken(); len(taken) != 1 || taken[0].By != "olga" || taken[0].Action != "decline" {
		t.Errorf("taken: %+v", taken)
	}
}

// TestQuestionForSome: a question that is for some of those who may answer is
// shown to all of them, and answered by these.
func TestQuestionForSome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	question := gate("ask#1", "Deploy?", "")
	question.Approvers = []string{"group:approvers"}
	w.runs.add(run("deploy/1", "alice", question))
	alice, carol := w.open("alice"), w.open("carol")
	_, page := alice.get("/approvals/deploy/1")
	has(t, page, "Deploy?", "waits for somebody else")
	hasNot(t, page, "Accept</button>")
	form := carol.form("deploy/1", "ask#1", "accept")
	if status, _ := alice.post("/approvals/deploy/1", form); status != http.StatusForbidden {
		t.Errorf("the caller answers: HTTP %d", status)
	}
	if status, _ := carol.post("/approvals/deploy/1", form); status != http.StatusOK {
		t.Errorf("the approver answers: HTTP %d", status)
	}
	if taken := w.runs.taken(); len(taken) != 1 || taken[0].By != "carol" {
		t.Errorf("taken: %+v", taken)
	}
}

// The approver of a script that an agent has sent can read the script. The page does
// not show what a composite tool does inside.
func TestSentScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sent, written := run("execute_tool_script/1", "alice", gate("script/main:2#1", "Go on?", "")), run("deploy/1", "alice", gate("script/main:2#1", "Go on?", ""))
	sent.Tool, sent.Script = "execute_tool_script", "x = 1\nif x < 2: approve(\"Go on?\")\n"
	written.Tool, written.Script = "deploy", sent.Script
	w.runs.add(sent)
	w.runs.add(written)
	b := w.open("alice")
	_, page := b.get("/approvals/execute_tool_script/1")
	has(t, page, "<details><summary>The script</summary>", "  1  x = 1\n  2  if x &lt; 2: approve(&#34;Go on?&#34;)</pre></details>")
	_, page = b.get("/approvals/deploy/1")
	hasNot(t, page, "The script", "x = 1")
}

// TestOtherQuestions: what is asked of operators reports what its answers mean.
func TestOtherQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unsettled := gate("pay/reconciliation#1", "Was it?", `{"type":"object","properties":{"outcome":{"oneOf":[{"const":"happened","title":"It was executed"}]}},"required":["outcome"]}`)
	unsettled.Kind, unsettled.Call = runs.Reconciliation, &workflows.ParkedCall{Tool: "bank_pay", Key: "the key", Arguments: json.RawMessage(`{"cents":9007199254740993}`), Sent: time.Now()}
	wanting := gate("pay/credentials#1", "The bank wants a token.", "")
	wanting.Kind = runs.Credentials
	w.runs.add(run("deploy/1", "alice", unsettled, wanting))
	b := w.open("olga")
	_, page := b.get("/approvals/deploy/1")
	has(t, page, "bank_pay", "the key", `<bdi>&#34;cents&#34;</bdi>: 9007199254740993`, "Go on with that", "It was executed", "It is there, go on", "Let the step fail")
	hasNot(t, page, `value="cancel"`)
	if status, page := b.answer("deploy/1", "pay/reconciliation#1", "accept", url.Values{"outcome": {"0"}}); status != http.StatusOK {
		t.Errorf("HTTP %d %s", status, page)
	}
	if got := string(w.runs.taken()[0].Content); got != `{"outcome":"happened"}` {
		t.Errorf("answered %s", got)
	}
}

func TestForgedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", `{"type":"object","properties":{"why":{"type":"string"}}}`), gate("ask#2", "Again?", "")))
	w.runs.add(run("deploy/2", "alice", gate("ask#1", "Deploy?", "")))
	alice, carol := w.open("alice"), w.open("carol")
	good := func() url.Values { return alice.form("deploy/1", "ask#1", "accept") }
	tests := []struct {
		name   string
		form   func() url.Values
		header []string
		status int
	}{
		{"from another site", good, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"from another port", good, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{"with another origin", good, []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, http.StatusForbidden},
		{"with no origin", good, []string{"Sec-Fetch-Site", "", "Origin", "null"}, http.StatusForbidden},
		{"without a token", func() url.Values { f := good(); f.Del("token"); return f }, nil, http.StatusUnprocessableEntity},
		{"with a changed token", func() url.Values { f := good(); f.Set("token", f.Get("token")+"x"); return f }, nil, http.StatusUnprocessableEntity},
		{"that never expires", func() url.Values {
			f := good()
			_, mac, _ := strings.Cut(f.Get("token"), ".")
			f.Set("token", "zzzzzzzzz."+mac)
			return f
		}, nil, http.StatusUnprocessableEntity},
		{"with somebody else's token", func() url.Values { return carol.form("deploy/1", "ask#1", "accept") }, nil, http.StatusUnprocessableEntity},
		{"with the token of another run", func() url.Values { return alice.form("deploy/2", "ask#1", "accept") }, nil, http.StatusUnprocessableEntity},
		{"with the token of another question", func() url.Values {
			f := alice.form("deploy/1", "ask#2", "accept")
			f.Set("question", "ask#1")
			return f
		}, nil, http.StatusUnprocessableEntity},
		{"of no question", func() url.Values { f := good(); f.Set("question", "ask#9"); return f }, nil, http.StatusNotFound},
	}
	for _, tt := range tests {
		form := tt.form()
		form.Set("field.why", "what was entered")
		status, page := alice.post("/approvals/deploy/1", form, tt.header...)
		if status != tt.status {
			t.Errorf("a form %s: HTTP %d, want %d", tt.name, status, tt.status)
		}
		if status == http.StatusUnprocessableEntity {
			has(t, page, "open for too long, or is not from here", "what was entered")
		}
	}
	if taken := w.runs.taken(); len(taken) > 0 {
		t.Errorf("taken: %+v", taken)
	}
	form := good()
	if status, _ := alice.do("POST", "/approvals/deploy/1", `{"action":"accept"}`, []string{"Content-Type", "application/json"}); status != http.StatusNotFound {
		t.Errorf("JSON: HTTP %d", status)
	}
	form.Set("field.why", strings.Repeat("x", 5<<20))
	if status, _ := alice.post("/approvals/deploy/1", form); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a huge form: HTTP %d", status)
	}
	// The forms of one replica are good at another one.
	form, alice.url = good(), w.replica()
	alice.http.Jar.SetCookies(mustURL(t, alice.url), alice.http.Jar.Cookies(mustURL(t, w.url)))
	if status, page := alice.post("/approvals/deploy/1", form); status != http.StatusOK {
		t.Errorf("at another replica: HTTP %d %s", status, page)
	}
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u := perduretest.Must(url.Parse(s))(t)
	return u
}

// TestTextIsText: whatever comes from a definition, a model or a caller is
// shown and is never markup.
func TestTextIsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const evil = `"'></textarea></title><script>alert(1)</script><img src=x onerror=alert(2)>javascript:alert(3){{.}}`
	quoted := perduretest.Must(json.Marshal(evil))(t)
	q := string(quoted)
	schema := `{"type":"object","properties":{` + q + `:{"type":"string","title":` + q + `,"description":` + q + `,"default":` + q + `,"pattern":` + q + `},
		"short":{"type":"string","maxLength":5,"format":` + q + `,"default":` + q + `},
		"n":{"type":"number","default":` + q + `},
		"e":{"enum":[` + q + `],"enumNames":[` + q + `]},
		"o":{"oneOf":[{"const":` + q + `,"title":` + q + `},{"const":1},{"const":2},{"const":3},{"const":4},{"const":5},{"const":6}]},
		"m":{"type":"array","items":{"enum":[` + q + `]}}},"required":[` + q + `]}`
	d := run("deploy/1", evil, gate(`a"><b>#1`, evil, schema), gate("done#1", evil, ""))
	d.Version, d.Arguments = evil, json.RawMessage(`{"a":`+q+`}`)
	d.Elicitations[1].State, d.Elicitations[1].Action, d.Elicitations[1].By = "answered", evil, evil
	now := time.Now()
	d.Closed, d.Outcome = &now, &runs.Outcome{Output: json.RawMessage(q)}
	w.runs.add(d)
	b := w.open("carol")
	_, page := b.get("/approvals/deploy/1")
	_, list := b.get("/approvals")
	_, wrong := b.answer("deploy/1", `a"><b>#1`, "accept", url.Values{evil: {evil}})
	for _, body := range []string{page, list, wrong} {
		hasNot(t, body, "<script", "<img", "<b>", `href="javascript`)
		has(t, body, "&lt;script&gt;")
	}
	has(t, page, "{{.}}")
}

// TestAttackWhatApproversReadOnThePage: no author of a text can hide anything on a page
// or change the order of other text. The page shows each such character as a mark; the
// call runs with the character.
func TestAttackWhatApproversReadOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const evil = "pay\u202e54321-\u202c\u200b\x1b[2K\U000e0041<h1>"
	quoted := perduretest.Must(json.Marshal(evil))(t)
	q := string(quoted)
	schema := `{"type":"object","title":` + q + `,"properties":{` + q + `:{"type":"string","description":` + q + `,"default":` + q + `,"pattern":"x","patternDescription":` + q + `},
		"titled":{"type":"number","title":` + q + `},"e":{"enum":[` + q + `]},"n":{"enum":["1","2"],"enumNames":[` + q + `],"default":"1"},
		"o":{"oneOf":[{"const":` + q + `},{"const":"y","title":` + q + `}]},"m":{"type":"array","items":{"enum":[` + q + `]},"default":[` + q + `]}}}`
	asks := gate(evil+"#1", "Pay\x00?\n"+evil, schema)
	asks.StepPath, asks.Call = evil, &workflows.ParkedCall{Tool: evil, Key: evil, Arguments: json.RawMessage(`{"to":` + q + `}`), Sent: time.Now()}
	done := gate("done#1", evil, "")
	done.State, done.Action, done.By = "answered", evil, evil
	d := run("deploy/1", evil, asks, done)
	d.Tool, d.Version, d.Script = "execute_tool_script", evil, evil
	d.Arguments = json.RawMessage(`{` + q + `:[` + q + `,1.50]}`)
	now := time.Now()
	d.Closed, d.Outcome = &now, &runs.Outcome{Output: json.RawMessage(q)}
	failed := run("deploy/2", evil)
	failed.Closed, failed.Outcome = &now, &runs.Outcome{Failure: &runs.Failure{Error: runs.Error{Message: evil}}}
	w.runs.add(d)
	w.runs.add(failed)
	b := w.open("carol")
	_, page := b.get("/approvals/deploy/1")
	_, list := b.get("/approvals")
	token := tokens.FindStringSubmatch(page[strings.Index(page, `name="question"`):])[1]
	_, wrong := b.post("/approvals/deploy/1", url.Values{"question": {evil + "#1"}, "token": {token}, "action": {"accept"}, "field." + evil: {"xx"}, "field.titled": {"no"}})
	_, ended := b.get("/approvals/deploy/2")
	_, login := w.open("").get("/approvals/login?to=/approvals/" + url.PathEscape(evil))
	for name, body := range map[string]string{"the run": page, "the list": list, "after a wrong answer": wrong, "a failed run": ended, "the sign-in": login} {
		if i := strings.IndexFunc(body, view.Hidden); i >= 0 {
			t.Errorf("%s has a hidden character: %q", name, body[max(0, i-60):min(len(body), i+20)])
		}
		hasNot(t, body, `\u003c`, "\\u202e")
	}
	page = strings.ReplaceAll(page, "&#43;", "+")
	const shown = "pay[U+202E]54321-[U+202C][U+200B][U+001B][2K[U+E0041]&lt;h1&gt;"
	has(t, page, "Pay[U+0000]?\n"+shown, `<bdi>&#34;`+shown+`&#34;</bdi>`, "if left empty: "+shown, html.EscapeString(view.Advice))
	if n := strings.Count(page, shown); n < 20 {
		t.Errorf("the text is shown %d times:\n%s", n, page)
	}
	hasNot(t, w.plainPage(t), view.Advice)

	// What is chosen is the value, not how it is shown.
	sent := regexp.MustCompile(`(?s)name="question" value="([^"]*)">.*name="token" value="([^"]*)">.*name="([^"]*)" type="text" value="xx"`).FindStringSubmatch(wrong)
	if sent == nil {
		t.Fatalf("there is no form in %s", wrong)
	}
	form := url.Values{"question": {html.UnescapeString(sent[1])}, "token": {sent[2]}, "action": {"accept"}}
	form["field.e"], form["field.m"], form[html.UnescapeString(sent[3])] = []string{"0"}, []string{"0"}, []string{"xx"}
	if status, body := b.post("/approvals/deploy/1", form); status != http.StatusOK {
		t.Fatalf("HTTP %d %s", status, body)
	}
	var taken map[string]any
	perduretest.NoError(t, json.Unmarshal(w.runs.taken()[0].Content, &taken))
	if diff := cmp.Diff(map[string]any{evil: "xx", "e": evil, "m": []any{evil}}, taken); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// plainPage is a page without any text that hides something.
func (w *world) plainPage(t *testing.T) string {
	t.Helper()
	w.runs.add(run("plain/1", "alice", gate("ask#1", "Deploy to ⚠️ שלום?", "")))
	_, page := w.open("alice").get("/approvals/plain/1")
	has(t, page, "Deploy to ⚠️ שלום?")
	return page
}

// TestEnteredStays: what a person has entered comes back as it was, also with
// characters that are marks elsewhere: they continue with it.
func TestEnteredStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", `{"type":"object","properties":{
		"note":{"type":"string"},"line":{"type":"string","maxLength":50},"why":{"type":"string"}},"required":["why"]}`)))
	const entered = "می\u200cخواهم & <b>"
	status, page := w.open("alice").answer("deploy/1", "ask#1", "accept", url.Values{"note": {entered}, "line": {entered}})
	if status != http.StatusUnprocessableEntity {
		t.Fatalf("HTTP %d", status)
	}
	const kept = "می&#8204;خواهم &amp; &lt;b&gt;"
	has(t, page, `value="`+kept+`"`, kept+"</textarea>")
}

// TestOddSchemas: a schema that the language would refuse is shown as far as it
// can be; whether an answer fits is not for the form to say.
func TestOddSchemas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, schema := range []string{
		``, `null`, `[]`, `"x"`, `{`, `{"properties":[]}`, `{"properties":{"a":null,"b":true,"c":[],"d":"x"}}`,
		`{"properties":{"a":{"type":["string","null"],"enum":"x","oneOf":{},"items":[],"default":{}}}}`,
		`{"properties":{"a":{"type":"array","items":{},"default":"x"},"b":{"type":"array"},"c":{"type":"object"}}}`,
		`{"properties":{"a":{"type":"integer","minimum":"x","maximum":1e400,"default":[1]}},"required":"a"}`,
		`{"properties":{"":{"type":"string"},"a b; c":{"type":"boolean","default":"x"}},"required":["",7]}`,
		`{"properties":{"a":{"enum":[null,1.50,{"b":[]},"x"],"enumNames":["n"],"default":1.50}}}`,
		`{"properties":{"a":{"type":"string","maxLength":-1,"minLength":1.5,"title":7}}}`,
		strings.Repeat(`{"properties":{"a":`, 5000) + strings.Repeat(`}`, 10000),
	} {
		id := fmt.Sprintf("odd/%d", i)
		w.runs.add(run(id, "alice", gate("ask#1", "Deploy?", schema)))
		b := w.open("alice")
		status, page := b.get("/approvals/" + id)
		if status != http.StatusOK || !strings.Contains(page, "Accept</button>") {
			t.Errorf("%.80s: HTTP %d", schema, status)
		}
		if status, _ := b.answer(runs.RunID(id), "ask#1", "accept", url.Values{"a": {"0", "x"}, "": {"y"}}); status != http.StatusOK && status != http.StatusUnprocessableEntity {
			t.Errorf("%.80s: answered with HTTP %d", schema, status)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", "")))
	b := w.open("alice")
	for _, path := range []string{"/approvals", "/approvals/deploy/1", "/approvals/none/1", "/approvals/login"} {
		resp := perduretest.Must(b.http.Get(b.url + path))(t)
		resp.Body.Close()
		_, body := b.get(path)
		_, style, _ := strings.Cut(body, "<style>")
		style, _, _ = strings.Cut(style, "</style>")
		digest := sha256.Sum256([]byte(style))
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Frame-Options":         "DENY", "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
			"Content-Type": "text/html; charset=utf-8",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		hasNot(t, body, "<script", "style=", " on")
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 260 {
		caller := "bob"
		if i%100 == 0 {
			caller = "alice"
		}
		w.runs.add(run(fmt.Sprintf("deploy/%d", i), caller, gate("ask#1", fmt.Sprintf("Deploy number %d?", i), "")))
	}
	_, page := w.open("alice").get("/approvals")
	has(t, page, "number 0?", "number 100?", "number 200?", "3 minutes ago")
	hasNot(t, page, "number 1?", "More")

	carol := w.open("carol")
	seen, pages := 0, 0
	for path := "/approvals"; path != ""; pages++ {
		status, page := carol.get(path)
		if status != http.StatusOK {
			t.Fatalf("HTTP %d", status)
		}
		seen += strings.Count(page, "Deploy number")
		path = ""
		if _, after, ok := strings.Cut(page, `<p><a href="/approvals?from=`); ok {
			next, _, _ := strings.Cut(after, `"`)
			path = "/approvals?from=" + next
		}
	}
	if seen != 260 || pages < 2 {
		t.Errorf("an approver saw %d questions on %d pages, want 260", seen, pages)
	}
	for _, from := range []string{"own.x", "others.-1x", "%ff", "others.%00"} {
		if status, page := carol.get("/approvals?from=" + from); status != http.StatusOK || !strings.Contains(page, "Deploy number") {
			t.Errorf("from %s: HTTP %d", from, status)
		}
	}
}

// TestAttackManyQuestions has one run ask hundreds of questions: it is one row of the
// list, and all of them are on its own page.
func TestAttackManyQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var flood []runs.Elicitation
	for i := range 400 {
		flood = append(flood, gate(fmt.Sprintf("ask#%d", i+1), fmt.Sprintf("Flood %d?", i), ""))
	}
	w.runs.add(run("deploy/1", "mallory", flood...))
	w.runs.add(run("deploy/2", "alice", gate("ask#1", "Deploy?", "")))
	carol := w.open("carol")
	_, page := carol.get("/approvals")
	has(t, page, "Flood 0?", "and 399 more of this run", "Deploy?")
	if n := strings.Count(page, "Flood"); n != 1 {
		t.Errorf("one run takes %d rows", n)
	}
	_, page = carol.get("/approvals/deploy/1")
	has(t, page, "Flood 0?", "Flood 399?")
}

func TestRunsAreAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", "")))
	b := w.open("alice")
	w.runs.down = true
	for _, path := range []string{"/approvals", "/approvals/deploy/1"} {
		status, page := b.get(path)
		if status != http.StatusServiceUnavailable {
			t.Errorf("%s: HTTP %d", path, status)
		}
		has(t, page, "Nothing is lost.")
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runs.add(run("deploy/1", "alice", gate("ask#1", "Deploy?", "")))
	w.runs.add(run("login/1", "alice", gate("ask#1", "Log in?", "")))
	b := w.open("alice")
	for path, want := range map[string]string{
		"/approvals/deploy/1": "Deploy?", "/approvals/deploy%2F1": "Deploy?", "/approvals/login/1": "Log in?", "/approvals/": "Deploy?",
	} {
		_, page := b.get(path)
		has(t, page, want)
	}
	if got := approvals.Path("a b/c?d"); got != "/approvals/a%20b/c%3Fd" {
		t.Errorf("path is %s", got)
	}
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.open("alice")
	_, page := b.get("/approvals")
	token := tokens.FindStringSubmatch(page)[1]
	if status, _ := b.post("/approvals/logout", url.Values{"token": {"x"}}); status != http.StatusForbidden {
		t.Errorf("a forged sign-out: HTTP %d", status)
	}
	_, page = b.post("/approvals/logout", url.Values{"token": {token}})
	has(t, page, "You are signed out.")
	_, page = b.get("/approvals")
	has(t, page, "Enter the token")
	if status, page := b.post("/approvals/login", url.Values{"access": {"mallory"}, "to": {"//evil.example/"}}); status != http.StatusUnauthorized || !strings.Contains(page, `name="to" value="/approvals"`) {
		t.Errorf("a wrong token: HTTP %d %s", status, page)
	}
}

// TestTokensCannotBeChecked: that is no reason to sign in again.
func TestTokensCannotBeChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.open("alice")
	w.people.mu.Lock()
	w.people.away = true
	w.people.mu.Unlock()
	status, page := b.get("/approvals")
	if status != http.StatusServiceUnavailable {
		t.Errorf("HTTP %d", status)
	}
	has(t, page, "Who you are cannot be checked at the moment.")
}

// TestTokenIsWithdrawn: who has signed in by a token is somebody for as long as
// the token is good.
func TestTokenIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.open("alice")
	w.people.mu.Lock()
	delete(w.people.groups, "alice")
	w.people.mu.Unlock()
	_, page := b.get("/approvals")
	has(t, page, "Enter the token")
}
