package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/runs"
)

// Tasks are runs, for clients that poll. There are two flavours: those of core
// in 2025-11-25, where the client asks for a task and takes its result and its
// questions from the stream of tasks/result, and those of the extension for
// 2026-07-28, where the server decides and everything is in tasks/get.
//
// A task ID is a signed handle on a run of its caller, and nothing else is kept: every
// run of a caller is a task of that caller for as long as the run is kept.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	tasksPrefix    = "tasks/"
	updateTask     = "tasks/update"

	metaRelatedTask = mcp.RelatedTaskMetaKey
	metaImmediate   = "io.modelcontextprotocol/model-immediate-response" // what a model reads while the task works
)

// How often clients are asked to poll. A person takes longer than a step.
const (
	pollRunning = time.Second
	pollWaiting = 2 * time.Second
)

const (
	taskPage     = 50             // tasks in one answer to tasks/list
	taskPageLife = 24 * time.Hour // of a cursor of tasks/list
)

// A task token is a handle on a run. It does not expire: it ends with the run.
type task struct {
	claims
	Run runs.RunID `json:"r"`
}

// A taskPlace is where the next page of tasks/list begins.
type taskPlace struct {
	claims
	Page string `json:"n"`
}

// TaskViews show runs as tasks.
type taskViews struct {
	tokens    *sealer
	server    mcp.Implementation
	retention time.Duration // of runs that have ended; 0 = not known
}

// Tasks serve the requests that name a task.
type tasks struct {
	runs      Runs
	rights    *rights
	tokens    *sealer
	views     *taskViews
	results   *results
	calls     *calls
	questions *questions
	streams   *streams
	log       *slog.Logger
}

// id is the same for a run and its caller wherever it is made.
func (v *taskViews) id(callerID string, run runs.RunID) string {
	return v.tokens.seal(taskPurpose, &task{claims: claims{CallerID: callerID}, Run: run})
}

// checkTaskRequest reports what is wrong with the task parameter of a call. The time to
// live that it may ask for is not granted: a task is kept as long as its run.
func checkTaskRequest(raw json.RawMessage) error {
	var asked struct {
		TTL *float64 `json:"ttl"`
	}
	if err := json.Unmarshal(raw, &asked); err != nil {
		return fmt.Errorf("task cannot be read: %w", err)
	}
	if asked.TTL != nil && *asked.TTL < 0 {
		return errors.New("task.ttl must not be negative")
	}
	return nil
}

// A taskMethod handles a request that names a task.
type taskMethod func(ts *tasks, ctx context.Context, x *exchange, run *runs.Run)

// serve answers the methods that begin with tasks/, which mcp-go would handle in its
// own way.
func (ts *tasks) serve(ctx context.Context, x *exchange, method string) {
	methods, lists := x.dialect.taskMethods(x.client)
	handle := methods[method]
	lists = lists && method == string(mcp.MethodTasksList)
	switch {
	case handle == nil && !lists:
		x.fail(mcp.METHOD_NOT_FOUND, "method "+method+" not found")
	case !x.tasks:
		x.failWith(missingTasks)
	case x.badParams != nil:
		x.fail(mcp.INVALID_PARAMS, unreadable(x.badParams))
	case lists:
		ts.listTasks(ctx, x)
	default:
		action := auth.See
		if method == string(mcp.MethodTasksCancel) {
			action = auth.Cancel
		}
		if run, ok := ts.taskRun(ctx, x, action); ok {
			handle(ts, ctx, x, run)
		}
	}
}

// missingTasks is the error for a client that did not declare the extension.
var missingTasks = &rpcError{
	Code:    mcp.MISSING_REQUIRED_CLIENT_CAPABILITY,
	Message: "Missing required client capability: " + tasksExtension,
	Data:    map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: struct{}{}}}},
}

// taskRun is the run that a request names by a task, if the caller may act on it. An
// unknown run, another caller's and an invalid task ID give the same error.
func (ts *tasks) taskRun(ctx context.Context, x *exchange, action auth.Action) (*runs.Run, bool) {
	var t task
	err := ts.tokens.open(taskPurpose, x.params.TaskID, x.callerID, &t)
	if err != nil {
		ts.log.DebugContext(ctx, "refusing a task ID", "error", err)
		x.fail(mcp.INVALID_PARAMS, "task not found")
		return nil, false
	}
	run, err := ts.rights.permitted(ctx, x.who, action, t.Run)
	switch {
	case errors.Is(err, runs.ErrNotFound):
		x.fail(mcp.INVALID_PARAMS, "task not found; its run may have been deleted after the retention time")
		return nil, false
	case err != nil:
		ts.results.failed(x, t.Run, err)
		return nil, false
	}
	return run, true
}

// A taskState is what a task has in both eras.
type taskState struct {
	ID      string    `json:"taskId"`
	Status  string    `json:"status"`
	Message string    `json:"statusMessage,omitempty"`
	Created time.Time `json:"createdAt"`
	Updated time.Time `json:"lastUpdatedAt"`
}

// describe renders a run as a task while it works. A client sees the task under the
// name it used, also when the key that signed it was replaced.
func (v *taskViews) describe(x *exchange, run *runs.Run) taskState {
	t := taskState{
		ID:      cmp.Or(x.params.TaskID, v.id(x.callerID, run.ID)),
		Status:  string(mcp.TaskStatusWorking),
		Created: run.Started.UTC().Truncate(time.Millisecond),
	}
	updates := []time.Time{run.Started}
	for _, e := range run.Elicitations {
		updates = append(updates, e.Opened)
	}
	if run.Closed != nil {
		updates = append(updates, *run.Closed)
	}
	t.Updated = slices.MaxFunc(updates, time.Time.Compare).UTC().Truncate(time.Millisecond)
	return t
}

// ttl is how long a task is kept, counted from its creation, once that is
// known: a run that is under way is never deleted.
func (v *taskViews) ttl(run *runs.Run) *int64 {
	if run.Closed == nil || v.retention <= 0 {
		return nil
	}
	ttl := (run.Closed.Sub(run.Started) + v.retention).Milliseconds()
	return &ttl
}

func pollInterval(run *runs.Run) int64 {
	switch {
	case run.Closed != nil:
		return 0
	case len(run.Open()) > 0:
		return pollWaiting.Milliseconds()
	}
	return pollRunning.Milliseconds()
}

// An input is an elicitation that the client of a task is asked about.
type input struct {
	*gate
	key    string // never used for another question of the task
	number int    // of the question that the key is of, from 1
	params elicitParams
}

// inputs are the elicitations of a run that a client can be asked, as the stream of a
// call would find them, and a message for when another channel must answer.
func (ts *tasks) inputs(x *exchange, run *runs.Run) (ask []input, wait string) {
	s := &asker{rendering: &rendering{on: ts.streams, x: x, at: cursor{Run: run.ID, Owner: run.Caller, Tool: run.Tool}}}
	s.know(run)
	for _, gt := range s.gates() {
		if number, again := gt.nextQuestion(); again && !gt.mute {
			ask = append(ask, input{gate: gt, key: questionKey(gt.ID, gt.Round, number), number: number, params: s.params(gt)})
		}
	}
	if run.Status == runs.Quarantined {
		return nil, quarantinedWords
	}
	if len(s.gates()) > 0 {
		wait = waitsFor(s.gates()[0].Elicitation)
		if len(ask) == 0 && s.gates()[0].reason != "" {
			wait += " " + notTaken(s.gates()[0].reason)
		}
		if page := ts.results.page(run.ID); len(ask) == 0 && s.gates()[0].Kind != runs.Credentials && page != "" {
			wait += " (to be given at " + page + ")"
		}
	}
	return ask, wait
}

// nextQuestion counts how often a task has shown an elicitation: once more after each
// rejected answer, with the reason. Again is false at the limit, or when the user was
// sent to the page.
func (gt *gate) nextQuestion() (number int, again bool) {
	number, again = 1, len(gt.Questions) < runs.MaxQuestions
	for _, a := range gt.Questions {
		if a.Name != questionKey(gt.ID, gt.Round, number) {
			continue
		}
		number++
		gt.reason = a.Reason
		again = again && a.Outcome == runs.Invalid && number <= maxInvalid
	}
	return number, again
}

// cancelTask asks a run to end, and gives the run as it is then: most continue for a
// moment.
func (ts *tasks) cancelTask(ctx context.Context, x *exchange, run *runs.Run) (*runs.Run, bool) {
	ctx, done := detached(ctx)
	defer done()
	if err := ts.runs.Cancel(ctx, run.ID, cancelReason); err != nil && !errors.Is(err, runs.ErrNotFound) {
		ts.results.failed(x, run.ID, err)
		return nil, false
	}
	asked, err := ts.runs.Get(ctx, run.ID)
	if err != nil {
		ts.results.failed(x, run.ID, err)
		return nil, false
	}
	return asked, true
}

// taskMeta is the _meta of what belongs to a task on the stream of
// tasks/result; nil elsewhere.
func (m renderOptions) taskMeta() map[string]any {
	if m.task == "" {
		return nil
	}
	return map[string]any{metaRelatedTask: map[string]string{"taskId": m.task}}
}

// taskHooks announce tasks where mcp-go speaks for us.
func taskHooks() *server.Hooks {
	hooks := &server.Hooks{}
	hooks.AddAfterInitialize(func(_ context.Context, _ any, _ *mcp.InitializeRequest, res *mcp.InitializeResult) {
		res.Capabilities.Extensions = nil // of 2026-07-28
		if knowsTasks(res.ProtocolVersion) {
			res.Capabilities.Tasks = mcp.NewTasksCapability()
		}
	})
	return hooks
}

// knowsTasks reports whether a version of the session era has tasks.
func knowsTasks(version string) bool {
	return version >= mcp.ProtocolVersion20251125 && !mcp.IsModernProtocol(version)
}

// declaresTasks reports whether capabilities of 2026-07-28 include the extension.
func declaresTasks(c mcp.ClientCapabilities) bool {
	_, ok := c.Extensions[tasksExtension]
	return ok
}

func isTaskMethod(m *message) bool { return m.isRequest() && strings.HasPrefix(m.Method, tasksPrefix) }

// listensToTasks reports whether a client wants notifications of tasks without the
// tasks capability. Clients with it get none: they poll.
func listensToTasks(c *client, m *message, p *params) bool {
	return !c.tasks && c.dialect.listens(m, p)
}
