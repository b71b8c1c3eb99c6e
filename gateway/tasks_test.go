package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/runs"
)

// taskView is whatever requests that have to do with tasks are answered.
type taskView struct {
	TaskID, Status, StatusMessage  string
	CreatedAt, LastUpdatedAt       time.Time
	TTL, TTLMs                     json.RawMessage
	PollInterval, PollIntervalMs   int64
	ResultType                     string
	Task                           *taskView
	Tasks                          []taskView
	NextCursor                     string
	Capabilities                   map[string]json.RawMessage
	Tools                          []struct{ Name, Execution json.RawMessage }
	Meta                           map[string]json.RawMessage `json:"_meta"`
	InputRequests                  map[string]json.RawMessage
	Result                         json.RawMessage
	Error, RequestState, IsErrored json.RawMessage
}

// answer reads the answer to a request: a result, or the code of an error.
func (r *response) answer() (view taskView, code int) {
	r.Helper()
	for {
		var m struct {
			Method string
			Result json.RawMessage
			Error  *struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(r.messageText(), &m); err != nil {
			r.Fatal(err)
		}
		switch {
		case m.Method != "":
			continue
		case m.Error != nil:
			return view, m.Error.Code
		}
		if err := json.Unmarshal(m.Result, &view); err != nil {
			r.Fatalf("%s: %v", m.Result, err)
		}
		return view, 0
	}
}

// ok is an answer that is no error.
func (r *response) ok() taskView {
	r.Helper()
	view, code := r.answer()
	if code != 0 {
		r.Fatalf("error %d", code)
	}
	return view
}

// request posts a request of the session era.
func (w *wire) request(method, params string) *response {
	w.Helper()
	return w.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":%q,"params":%s}`, requestSerial.Add(1), method, params))
}

// turns has every request of a client go to another replica than the one before.
func turns(w *world, c *wire) func() {
	_, other := w.replica()
	urls := []string{w.url, other}
	next := 0
	return func() {
		next++
		c.url = urls[next%2]
	}
}

const takesTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func of(id string) string { return fmt.Sprintf(`{"taskId":%q}`, id) }

func (w *wire) modernTask(method, id, rest string) *response {
	w.Helper()
	if rest != "" {
		rest = "," + rest
	}
	return w.modern(method, id, takesTasks, fmt.Sprintf(`"taskId":%q%s`, id, rest))
}

// until polls a task until it has a status.
func until(t *testing.T, status string, get func() taskView) taskView {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		view := get()
		if view.Status == status {
			return view
		}
		if time.Now().After(deadline) {
			t.Fatalf("the task is %s, want %s", view.Status, status)
		}
	}
}

func failing(p *play) {
	p.fail(runs.Failure{Error: runs.Error{Code: "tool_error", Category: "tool", Message: "the tool said no"}})
}

func hanging(p *play) {
	p.begin("a", "be_echo")
	<-p.f.ctx.Done()
}

// TestSessionTasks goes through the tasks of 2025-11-25, with each request at
// another replica.
func TestSessionTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated, "failing": failing},
		func(o *gateway.Options) { o.Retention = time.Hour })
	c := connect(t, w.url, "ann", "2025-11-25", canAsk)
	turn := turns(w, c)

	turn()
	for _, tool := range c.request("tools/list", `{}`).ok().Tools {
		want := ""
		if name := string(tool.Name); name == `"gated"` || name == `"failing"` {
			want = `{"taskSupport":"optional"}`
		}
		if string(tool.Execution) != want {
			t.Errorf("tool %s has execution %s, want %s", tool.Name, tool.Execution, want)
		}
	}

	turn()
	created := c.request("tools/call", `{"name":"gated","arguments":{},"task":{"ttl":60000}}`).ok()
	task := created.Task
	if task == nil || task.TaskID == "" || task.Status != "working" || task.CreatedAt.IsZero() || string(task.TTL) != "null" || task.PollInterval == 0 {
		t.Fatalf("created %+v", task)
	}
	if err := hasAll(string(created.Meta["perdure/run"]), `"id":"gated/`); err != nil {
		t.Error(err)
	}
	get := func() taskView {
		turn()
		return c.request("tasks/get", of(task.TaskID)).ok()
	}
	got := until(t, "input_required", get)
	if got.TaskID != task.TaskID || !got.CreatedAt.Equal(task.CreatedAt) || !strings.Contains(got.StatusMessage, "Write?") {
		t.Errorf("the task is %+v", got)
	}

	turn()
	related := fmt.Sprintf(`"io.modelcontextprotocol/related-task":{"taskId":%q}`, task.TaskID)
	ctx, drop := context.WithCancel(t.Context())
	stream := c.do(ctx, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":"res","method":"tasks/result","params":{"taskId":%q,"_meta":{"progressToken":"tok"}}}`, task.TaskID))
	m := stream.message()
	for m.Method == "notifications/progress" {
		if err := hasAll(string(m.Params), related, `"progressToken":"tok"`); err != nil {
			t.Error(err)
		}
		m = stream.message()
	}
	if err := hasAll(string(m.Params), related, "Write?"); err != nil || m.Method != "elicitation/create" {
		t.Fatalf("%s: %v", m.Method, err)
	}
	var question string
	perduretest.NoError(t, json.Unmarshal(m.ID, &question))
	drop() // and continue elsewhere
	turn()
	stream = c.do(t.Context(), http.MethodGet, "", "Last-Event-ID", stream.lastID)
	turn()
	if status := c.reply(question, `{"action":"accept","content":{"reason":"r"}}`); status != http.StatusAccepted {
		t.Errorf("answer: HTTP %d", status)
	}
	m = stream.result(false)
	m.structuredIs(t, `{"action":"accept","by":"user-ann"}`)
	if string(m.ID) != `"res"` || !strings.Contains(related, string(m.Result.Meta["io.modelcontextprotocol/related-task"])) {
		t.Errorf("response %s with _meta %s", m.ID, m.Result.Meta)
	}
	got = until(t, "completed", get)
	var ttl int64
	if err := json.Unmarshal(got.TTL, &ttl); err != nil || ttl < time.Hour.Milliseconds() || got.PollInterval != 0 {
		t.Errorf("a task that has ended has ttl %s and is polled every %d ms", got.TTL, got.PollInterval)
	}
	turn()
	c.request("tasks/result", of(task.TaskID)).result(false).structuredIs(t, `{"action":"accept","by":"user-ann"}`)

	turn()
	failed := c.request("tools/call", `{"name":"failing","task":{}}`).ok().Task.TaskID
	got = until(t, "failed", func() taskView { turn(); return c.request("tasks/get", of(failed)).ok() })
	if got.StatusMessage != "the tool said no" {
		t.Errorf("statusMessage %q", got.StatusMessage)
	}
	turn()
	c.request("tasks/result", of(failed)).result(true)

	turn()
	list := c.request("tasks/list", `{}`).ok().Tasks
	if len(list) != 2 || !slices.ContainsFunc(list, func(v taskView) bool { return v.TaskID == task.TaskID && v.Status == "completed" }) {
		t.Errorf("listed are %+v", list)
	}
}

func TestCancelSessionTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hanging": hanging})
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	turn := turns(w, c)
	id := c.request("tools/call", `{"name":"hanging","task":{"ttl":9007199254740991}}`).ok().Task.TaskID
	turn()
	waiting := c.request("tasks/result", of(id))
	waiting.frame()
	turn()
	if got := c.request("tasks/cancel", of(id)).ok(); got.Status != "cancelled" || got.TaskID != id {
		t.Errorf("cancelled: %+v", got)
	}
	if m := waiting.result(true); !strings.Contains(m.text(), "cancelled") {
		t.Errorf("the result is %s", m.text())
	}
	turn()
	if got := c.request("tasks/get", of(id)).ok(); got.Status != "cancelled" {
		t.Errorf("then it is %s", got.Status)
	}
	turn()
	if _, code := c.request("tasks/cancel", of(id)).answer(); code != -32602 {
		t.Errorf("cancelling it again: %d", code)
	}
}

// A client that no longer waits for a task has not cancelled it.
func TestTaskResultThatIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"hanging": hanging})
	c := connect(t, w.url, "ann", "2025-11-25", `{}`)
	id := c.request("tools/call", `{"name":"hanging","task":{}}`).ok().Task.TaskID
	stream := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":"waits","method":"tasks/result","params":{"taskId":%q}}`, id))
	stream.frame()
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"waits"}}`)
	if f, ok := stream.frame(); ok {
		t.Errorf("the stream goes on: %s", f.Data)
	}
	if got := c.request("tasks/get", of(id)).ok(); got.Status != "working" {
		t.Errorf("the task is %s", got.Status)
	}
}

func TestTaskList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"echoed": echoed})
	ann := connect(t, w.url, "ann", "2025-11-25", `{}`)
	bob := connect(t, w.url, "bob", "2025-11-25", `{}`)
	var made []string
	for range 5 {
		made = append(made, ann.request("tools/call", `{"name":"echoed","task":{}}`).ok().Task.TaskID)
	}
	theirs := bob.request("tools/call", `{"name":"echoed","task":{}}`).ok().Task.TaskID
	turn := turns(w, ann)
	var listed []string
	pages, cursor := 0, ""
	for params := `{}`; ; params = fmt.Sprintf(`{"cursor":%q}`, cursor) {
		turn()
		page := ann.request("tasks/list", params).ok()
		for _, task := range page.Tasks {
			listed = append(listed, task.TaskID)
		}
		pages++
		if page.NextCursor == "" {
			break
		}
		cursor = page.NextCursor
	}
	slices.Sort(made)
	slices.Sort(listed)
	if !slices.Equal(made, listed) || pages != 3 {
		t.Errorf("%d pages list %d tasks, want the %d made", pages, len(listed), len(made))
	}
	if got := bob.request("tasks/list", `{}`).ok().Tasks; len(got) != 1 || got[0].TaskID != theirs {
		t.Errorf("bob's list is %+v", got)
	}
	for name, params := range map[string]string{
		"somebody else's": fmt.Sprintf(`{"cursor":%q}`, cursor),
		"made up":         `{"cursor":"2"}`,
		"a task ID":       fmt.Sprintf(`{"cursor":%q}`, theirs),
	} {
		if _, code := bob.request("tasks/list", params).answer(); code != -32602 {
			t.Errorf("cursor that is %s: %d", name, code)
		}
	}
}

// What ends within the patience for tasks is no task.
func TestModernCallsThatAreFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"failing": failing, "echoed": echoed}, func(o *gateway.Options) { o.TaskPatience = time.Minute })
	c := &wire{T: t, url: w.url, caller: "ann"}
	for tool, fails := range map[string]bool{"echoed": false, "failing": true} {
		if m := c.modernCall(tool, `{}`, takesTasks, "").result(fails); m.Result.ResultType != "complete" {
			t.Errorf("%s has resultType %s", tool, m.Result.ResultType)
		}
	}
}

// TestModernTasks goes through the extension of 2026-07-28, with each request
// at another replica.
func TestModernTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated, "hanging": hanging,
		"slow": func(p *play) {
			p.begin("a", "be_echo")
			p.f.wait(p.f.ctx, func() bool { return len(p.f.answer) > 0 })
			p.fail(runs.Failure{Error: runs.Error{Code: "tool_error", Category: "tool", Message: "the tool said no"}})
		},
	}, func(o *gateway.Options) { o.TaskPatience = 20 * time.Millisecond; o.Retention = time.Hour })
	c := &wire{T: t, url: w.url, caller: "ann"}
	turn := turns(w, c)

	found := c.modern("server/discover", "", takesTasks, "").ok()
	if err := hasAll(string(found.Capabilities["extensions"]), `"io.modelcontextprotocol/tasks":{}`); err != nil || found.Capabilities["tasks"] != nil {
		t.Errorf("capabilities %s: %v", found.Capabilities, err)
	}

	turn()
	task := c.modernCall("gated", `{}`, takesTasks, "").ok()
	if task.ResultType != "task" || task.TaskID == "" || task.Status != "working" || string(task.TTLMs) != "null" ||
		task.PollIntervalMs == 0 || task.InputRequests != nil || task.RequestState != nil {
		t.Fatalf("created %+v", task)
	}
	get := func() taskView {
		turn()
		got := c.modernTask("tasks/get", task.TaskID, "").ok()
		if got.ResultType != "complete" || got.TaskID != task.TaskID {
			t.Fatalf("tasks/get: %+v", got)
		}
		return got
	}
	got := until(t, "input_required", get)
	if err := hasAll(string(got.InputRequests["gate"]), `"method":"elicitation/create"`, "Write?", `"requestedSchema"`); err != nil || len(got.InputRequests) != 1 {
		t.Errorf("input requests %s: %v", got.InputRequests, err)
	}
	turn()
	ack := c.modernTask("tasks/update", task.TaskID, `"inputResponses":{"gate":{"action":"accept","content":{"reason":"r"}}}`).ok()
	if ack.ResultType != "complete" || ack.TaskID != "" {
		t.Errorf("tasks/update: %+v", ack)
	}
	got = until(t, "completed", get)
	if err := hasAll(string(got.Result), `"structuredContent":{"action":"accept","by":"user-ann"}`, `"resultType":"complete"`); err != nil || strings.Contains(string(got.Result), "related-task") {
		t.Errorf("result %s: %v", got.Result, err)
	}
	turn()
	c.modernTask("tasks/update", task.TaskID, `"inputResponses":{"gate":{"action":"decline"}}`).ok()
	turn()
	if ack := c.modernTask("tasks/cancel", task.TaskID, "").ok(); ack.ResultType != "complete" || get().Status != "completed" {
		t.Errorf("cancelling what has ended: %+v", ack)
	}

	task = c.modernCall("slow", `{}`, takesTasks, "").ok() // done by now, since there was an answer before
	if task.ResultType == "task" {
		until(t, "completed", get)
	}

	turn()
	task = c.modernCall("hanging", `{}`, takesTasks, "").ok()
	until(t, "working", get)
	turn()
	c.modernTask("tasks/cancel", task.TaskID, "").ok()
	until(t, "cancelled", get)
}

// A tool's error is a result, so the task has completed.
func TestModernTaskWhoseToolFails(t *testing.T) {
	t.Parallel()
	release := make(chan bool)
	w := newWorld(t, map[string]func(*play){"fails": func(p *play) {
		p.begin("a", "be_echo")
		<-release
		failing(p)
	}}, func(o *gateway.Options) { o.TaskPatience = time.Nanosecond })
	c := &wire{T: t, url: w.url, caller: "ann"}
	task := c.modernCall("fails", `{}`, takesTasks, "").ok()
	close(release)
	got := until(t, "completed", func() taskView { return c.modernTask("tasks/get", task.TaskID, "").ok() })
	if err := hasAll(string(got.Result), `"isError":true`, "the tool said no"); err != nil || got.Error != nil {
		t.Error(err)
	}
}

// A client that cannot ask its user sees a task that works, and where to answer.
func TestTaskThatSomebodyElseAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) {
		o.TaskPatience = 10 * time.Millisecond
		o.RunURL = func(id runs.RunID) string { return "https://x.example/approvals/" + string(id) }
	})
	const mute = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	c := &wire{T: t, url: w.url, caller: "ann"}
	task := c.modernCall("gated", `{}`, mute, "").ok()
	got := c.modern("tasks/get", task.TaskID, mute, fmt.Sprintf(`"taskId":%q`, task.TaskID)).ok()
	if err := hasAll(got.StatusMessage, "Write?", "https://x.example/approvals/gated/"); err != nil || got.Status != "working" || got.InputRequests != nil {
		t.Errorf("%+v: %v", got, err)
	}
	s := connect(t, w.url, "ann", "2025-11-25", `{}`)
	if got := s.request("tasks/get", of(task.TaskID)).ok(); got.Status != "working" {
		t.Errorf("%+v", got)
	}
	if _, err := w.runs.Answer(t.Context(), w.runs.only(t), runs.Answer{ElicitationID: "gate#1", Action: "decline", By: "bob"}); err != nil {
		t.Fatal(err)
	}
	until(t, "completed", func() taskView { return c.modernTask("tasks/get", task.TaskID, "").ok() })
}

// TestTasksAreRefused: a task ID opens nothing but the run it was made for, to
// whom it was made for.
func TestTasksAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated, "gone": func(*play) {}}, func(o *gateway.Options) { o.TaskPatience = time.Nanosecond })
	ann := &wire{T: t, url: w.url, caller: "ann"}
	bob := &wire{T: t, url: w.url, caller: "bob"}
	annSession, bobSession := connect(t, w.url, "ann", "2025-11-25", canAsk), connect(t, w.url, "bob", "2025-11-25", canAsk)
	id := ann.modernCall("gated", `{}`, takesTasks, "").ok().TaskID
	gone := ann.modernCall("gone", `{}`, takesTasks, "").ok().TaskID
	w.runs.change(func() {
		for run := range w.runs.runs {
			if strings.HasPrefix(string(run), "gone/") {
				delete(w.runs.runs, run)
			}
		}
	})
	state := ann.modernCall("gated", `{}`, canAsk, "").result(false).Result.RequestState
	stranger := *w
	stranger.opts.Key = []byte("another key")
	_, url := stranger.replica()
	foreign := (&wire{T: t, url: url, caller: "ann"}).modernCall("gated", `{}`, takesTasks, "").ok().TaskID

	for name, tt := range map[string]struct {
		modern, session *wire
		id              string
	}{
		"somebody else's":    {bob, bobSession, id},
		"changed":            {ann, annSession, changed(id)},
		"of another purpose": {ann, annSession, state},
		"a session":          {ann, annSession, annSession.session},
		"a renamed state":    {ann, annSession, strings.Replace(state, "state.", "task.", 1)},
		"of another server":  {ann, annSession, foreign},
		"a run ID":           {ann, annSession, string(w.runs.begins(t, "gated/"))},
		"of a run long gone": {ann, annSession, gone},
		"made up":            {ann, annSession, "786512e2-9e0d-44bd-8f29-789f320fe840"},
		"very long":          {ann, annSession, strings.Repeat("x", 4000)},
	} {
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			resp := tt.modern.modernTask(method, tt.id, `"inputResponses":{"gate":{"action":"decline"}}`)
			if _, code := resp.answer(); code != -32602 || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s, %s of 2026-07-28: HTTP %d, %d", name, method, resp.StatusCode, code)
			}
		}
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			if _, code := tt.session.request(method, of(tt.id)).answer(); code != -32602 {
				t.Errorf("%s, %s of 2025-11-25: %d", name, method, code)
			}
		}
	}
	if got := w.runs.answers(); len(got) != 0 {
		t.Errorf("answers came through: %+v", got)
	}
	if got := ann.modernTask("tasks/get", id, "").ok(); got.Status != "input_required" {
		t.Errorf("the task is %s", got.Status)
	}
}

func TestTaskRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.TaskPatience = time.Nanosecond })
	modern := &wire{T: t, url: w.url, caller: "ann"}
	session := connect(t, w.url, "ann", "2025-11-25", canAsk)
	older := connect(t, w.url, "ann", "2025-06-18", canAsk)
	id := modern.modernCall("gated", `{}`, takesTasks, "").ok().TaskID
	body := func(method string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`, method, id, takesTasks)
	}
	headers := func(method, name string) []string {
		return []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
	}
	for name, tt := range map[string]struct {
		resp         *response
		code, status int
	}{
		"no capability, get":      {modern.modern("tasks/get", id, canAsk, fmt.Sprintf(`"taskId":%q`, id)), -32021, 400},
		"no capability, update":   {modern.modern("tasks/update", id, canAsk, fmt.Sprintf(`"taskId":%q`, id)), -32021, 400},
		"no capability, cancel":   {modern.modern("tasks/cancel", id, canAsk, fmt.Sprintf(`"taskId":%q`, id)), -32021, 400},
		"listening to tasks":      {modern.modern("subscriptions/listen", "", canAsk, `"notifications":{"taskIds":["x"]}`), -32021, 400},
		"another name":            {modern.post(body("tasks/get"), headers("tasks/get", "x")...), -32020, 400},
		"no name":                 {modern.post(body("tasks/get"), headers("tasks/get", "")...), -32020, 400},
		"another method":          {modern.post(body("tasks/get"), headers("tasks/cancel", id)...), -32020, 400},
		"another version":         {modern.post(body("tasks/get"), "Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "tasks/get", "Mcp-Name", id), -32020, 400},
		"tasks/result is gone":    {modern.modernTask("tasks/result", id, ""), -32601, 404},
		"tasks/list is gone":      {modern.modern("tasks/list", "", takesTasks, ""), -32601, 404},
		"answers of a wrong type": {modern.modernTask("tasks/update", id, `"inputResponses":[1]`), -32602, 400},
		"update in 2025-11-25":    {session.request("tasks/update", of(id)), -32601, 200},
		"tasks in 2025-06-18":     {older.request("tasks/get", of(id)), -32601, 200},
		"a ttl below zero":        {session.request("tools/call", `{"name":"gated","task":{"ttl":-1}}`), -32602, 200},
		"a ttl of no number":      {session.request("tools/call", `{"name":"gated","task":{"ttl":"1h"}}`), -32602, 200},
		"a task of no object":     {session.request("tools/call", `{"name":"gated","task":7}`), -32602, 200},
		"wrong arguments":         {session.request("tools/call", `{"name":"gated","arguments":{"n":"x"},"task":{}}`), -32602, 200},
		"a backend tool":          {session.request("tools/call", `{"name":"be_echo","task":{}}`), -32601, 200},
		"a built-in tool":         {session.request("tools/call", `{"name":"perdure_run_list","task":{}}`), -32601, 200},
	} {
		if _, code := tt.resp.answer(); code != tt.code || tt.resp.StatusCode != tt.status {
			t.Errorf("%s: HTTP %d, %d; want %d, %d", name, tt.resp.StatusCode, code, tt.status, tt.code)
		}
	}
	if m := older.request("tools/call", `{"name":"perdure_run_list","task":{}}`).result(false); m.Result == nil {
		t.Error("2025-06-18 does not know tasks, and is refused what it does not mean")
	}
	if w.runs.starts != 1 {
		t.Errorf("%d runs were started", w.runs.starts)
	}
}

func TestTaskOutlivesItsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.TaskPatience = time.Nanosecond })
	c := &wire{T: t, url: w.url, caller: "ann"}
	id := c.modernCall("gated", `{}`, takesTasks, "").ok().TaskID
	w.opts.Key, w.opts.RetiredKeys = []byte("a newer key"), [][]byte{testKey}
	_, c.url = w.replica()
	if got := c.modernTask("tasks/get", id, "").ok(); got.TaskID != id {
		t.Errorf("the task is now called %s, it was %s", got.TaskID, id)
	}
}

func TestTasksWhileRunsCannotBeReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.TaskPatience = time.Nanosecond })
	c := &wire{T: t, url: w.url, caller: "ann"}
	id := c.modernCall("gated", `{}`, takesTasks, "").ok().TaskID
	w.runs.change(func() { w.runs.getErr = func() error { return runs.ErrUnavailable } })
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if _, code := c.modernTask(method, id, "").answer(); code != -32603 {
			t.Errorf("%s: %d", method, code)
		}
	}
}

func TestTasksOverStdio(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated})
	in, out, _ := pipe(t, w)
	lines := bufio.NewScanner(out)
	say := func(line string) {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() (m msg, text string) {
		if !lines.Scan() {
			t.Fatal("the server is silent")
		}
		perduretest.NoError(t, json.Unmarshal(lines.Bytes(), &m))
		return m, lines.Text()
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}`)
	if _, text := hear(); !strings.Contains(text, `"tasks":{`) {
		t.Errorf("initialized: %s", text)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gated","task":{}}}`)
	_, text := hear()
	var created struct{ Result taskView }
	if err := json.Unmarshal([]byte(text), &created); err != nil || created.Result.Task == nil {
		t.Fatalf("created: %s", text)
	}
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":%q}}`, created.Result.Task.TaskID))
	asked, text := hear()
	perduretest.NoError(t, hasAll(text, created.Result.Task.TaskID, "Write?"))
	say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, asked.ID))
	done, text := hear()
	if string(done.ID) != "2" || done.Result == nil || string(done.Result.Structured) != `{"action":"decline","by":"anonymous"}` {
		t.Errorf("result: %s", text)
	}
}

// An answer that does not fit is asked for again under a key of its own, with
// the reason, and after three times the question is left to others.
func TestInvalidAnswersOfATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"gated": gated}, func(o *gateway.Options) { o.TaskPatience = time.Nanosecond })
	c := &wire{T: t, url: w.url, caller: "ann"}
	turn := turns(w, c)
	id := c.modernCall("gated", `{}`, takesTasks, "").ok().TaskID
	get := func() taskView { turn(); return c.modernTask("tasks/get", id, "").ok() }
	until(t, "input_required", get)
	for i, want := range []string{"gate", "gate#1.2", "gate#1.3"} {
		got := get()
		request := string(got.InputRequests[want])
		if len(got.InputRequests) != 1 || request == "" || strings.Contains(request, "was not taken") != (i > 0) {
			t.Fatalf("asked %s, want the key %s", got.InputRequests, want)
		}
		turn()
		c.modernTask("tasks/update", id, fmt.Sprintf(`"inputResponses":{%q:{"action":"accept","content":{"reason":7}}}`, want)).ok()
		if e := w.runs.snapshot(w.runs.only(t)).run.Elicitations[0]; e.State != "open" {
			t.Fatalf("the gate is %s", e.State)
		}
	}
	if got := get(); got.Status != "working" || got.InputRequests != nil || !strings.Contains(got.StatusMessage, "Write?") ||
		!strings.Contains(got.StatusMessage, "The answer was not taken: reason must be") {
		t.Errorf("after three answers the task is %+v", got)
	}
}

// A page to open is shown once.
func TestTaskSendsToThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]func(*play){"paged": func(p *play) {
		p.open(runs.Elicitation{StepID: "gate", Message: "Write?", Mode: "url"})
		p.complete(`"` + p.answered("gate#1").Action + `"`)
	}}, func(o *gateway.Options) {
		o.TaskPatience = time.Nanosecond
		o.RunURL = func(id runs.RunID) string { return "https://x.example/approvals/" + string(id) }
	})
	const opens = `{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	c := &wire{T: t, url: w.url, caller: "ann"}
	id := c.modernCall("paged", `{}`, opens, "").ok().TaskID
	get := func() taskView { return c.modern("tasks/get", id, opens, fmt.Sprintf(`"taskId":%q`, id)).ok() }
	got := until(t, "input_required", get)
	if err := hasAll(string(got.InputRequests["gate"]), `"mode":"url"`, "https://x.example/approvals/paged/"); err != nil {
		t.Error(err)
	}
	c.modern("tasks/update", id, opens, fmt.Sprintf(`"taskId":%q,"inputResponses":{"gate":{"action":"accept"}}`, id)).ok()
	if got := get(); got.Status != "working" || got.InputRequests != nil {
		t.Errorf("then the task is %+v", got)
	}
	if got := w.runs.answers(); len(got) != 0 {
		t.Errorf("answers came through: %+v", got)
	}
}
