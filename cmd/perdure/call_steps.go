package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/internal/runs"
)

// A progress notification of a server that runs composite tools.
type progressed struct {
	Message  string  `json:"message"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Meta     struct {
		Run struct {
			ID          string `json:"id"`
			ApprovalURL string `json:"approvalUrl"`
		} `json:"perdure/run"`
		Step *gateway.StepState `json:"perdure/step"`
	} `json:"_meta"`
}

// readProgress reads a notification; false if it is another one, or says nothing.
func readProgress(n mcp.JSONRPCNotification) (p progressed, ok bool) {
	raw, err := json.Marshal(n.Params)
	if n.Method != "notifications/progress" || err != nil || json.Unmarshal(raw, &p) != nil {
		return progressed{}, false
	}
	return p, p.Message != ""
}

// Steps show the progress of a call: on a terminal as a tree that changes in place,
// elsewhere as a line for each step.
type steps struct {
	c         *console
	data      dataDir // data directory of the called dev
	page      string  // approvals page of the run, as the server says; "" = it has none
	elsewhere bool    // this command shows no elicitations
	began     time.Time

	mu     sync.Mutex
	run    string // ID; "" = not known yet
	seen   map[string]bool
	why    []string // errors of steps that are printed next, unless the call ends with them
	screen *screen  // nil = lines
	tree   stepTree
	done   float64
	total  float64
	ended  bool
}

// newSteps shows the steps of a call. The caller ends it.
func newSteps(c *console, data dataDir, elsewhere bool) *steps {
	s := &steps{c: c, data: data, elsewhere: elsewhere, began: time.Now(), seen: map[string]bool{}}
	if c.errTerminal && c.colour {
		s.screen = &screen{c: c}
		go s.animate()
	}
	return s
}

// notified shows a progress notification.
func (s *steps) notified(n mcp.JSONRPCNotification) {
	p, ok := readProgress(n)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts(p.Meta.Run.ID, p.Meta.Run.ApprovalURL)
	if s.screen == nil {
		s.line(p)
		return
	}
	s.done, s.total = p.Progress, p.Total
	if p.Meta.Step != nil {
		s.tree.update(*p.Meta.Step, time.Now())
	}
	s.draw()
}

// starts shows which run it is, once.
func (s *steps) starts(id, page string) {
	if id == "" || s.run != "" {
		return
	}
	s.run, s.page = id, page
	text := s.c.errStyle(bold, id)
	if page != "" {
		text += "  " + s.c.errStyle(faint, page)
	}
	s.print(text)
}

// address is the page that was shown of the run; "" = none was.
func (s *steps) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.page
}

// line prints a notification unless it was printed before: servers repeat them to
// keep a connection alive, and when a call is resumed. Attempts of a step differ in when
// they started.
func (s *steps) line(p progressed) {
	step, key := p.Meta.Step, p.Message
	if step != nil {
		key = fmt.Sprintln(step.Path, step.Status, step.Started.UnixNano(), step.Ended.UnixNano(), step.Attempt, p.Message)
	}
	if s.seen[key] {
		return
	}
	s.seen[key], s.seen[p.Message] = true, true
	if step == nil || step.Status != "cancelled" { // which steps beside one that failed are
		s.printWhy("")
	}
	s.c.notef("  %s", p.Message)
	switch {
	case step == nil:
	case step.Status == gateway.StepWaiting && s.elsewhere:
		s.printHow(step.Path, step.Mode)
	case step.Status == "failed" && step.Error != "":
		s.why = append(s.why, step.Error)
		time.AfterFunc(time.Second, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.printWhy("")
		})
	}
}

// printWhy prints why steps have failed, unless the result says it.
func (s *steps) printWhy(result string) {
	for _, why := range s.why {
		if !strings.Contains(result, why) {
			s.c.notef("    %s", firstLine(why))
		}
	}
	s.why = nil
}

// printHow prints how a step that asks is answered.
func (s *steps) printHow(path runs.StepPath, mode definitions.Mode) {
	if path.Before(runs.StepPath(runs.Reconciliation)) != path {
		s.c.notef("  look at the backend and record the outcome as perdure runs show %s%s says, or on the approvals page", s.run, dataFlag(s.data))
		return
	}
	switch {
	case mode == definitions.URLMode && s.page == "":
		s.c.notef("  it can be answered on the approvals page alone, which is closed: the operator of the server has to say in its configuration how people sign in there")
		return
	case mode == definitions.URLMode:
		s.c.notef("  answer on the page above (of dev: perdure approvals open)")
		return
	}
	elsewhere := ""
	if s.page != "" {
		elsewhere = ", or on the page above (of dev: perdure approvals open)"
	}
	s.c.notef("  answer with perdure runs answer %s%s --step %s --accept (or --decline, --cancel)%s", s.run, dataFlag(s.data), view.ShellWord(string(path)), elsewhere)
}

// note prints a line for a person.
func (s *steps) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.print(fmt.Sprintf(format, args...))
}

func (s *steps) print(text string) {
	if s.screen == nil {
		s.c.notef("%s", text)
		return
	}
	s.screen.print(text)
	s.draw()
}

// animate draws what changes with time, until the call has ended.
func (s *steps) animate() {
	for ended := false; !ended; time.Sleep(100 * time.Millisecond) {
		s.mu.Lock()
		if ended = s.ended; s.run != "" {
			s.draw()
		}
		s.mu.Unlock()
	}
}

// draw draws the tree, and below it how far the run is. Steps for which there is no
// room scroll away when they have ended.
func (s *steps) draw() {
	if s.ended || s.screen.paused {
		return
	}
	now := time.Now()
	width, height := s.c.size()
	room := max(height-3, 3)
	s.screen.print(s.c.styled(s.tree.scroll(width, room, now)))
	s.screen.draw(append(s.tree.lines(width, room, now), s.tree.summary(s.done, s.total, now.Sub(s.began), now).clip(width)))
}

// finish leaves the tree as it was when the call ended, and draws no more. result is the
// text of a failed call.
func (s *steps) finish(completed bool, result string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.screen == nil {
		s.printWhy(result)
		return
	}
	status := "stopped"
	if completed {
		status = "completed"
	}
	s.tree.stop(status)
	s.screen.paused = false
	s.screen.draw(nil)
	width, _ := s.c.size()
	s.screen.print(s.c.styled(s.tree.lines(width, 0, time.Now())))
}

// over makes a form the only thing on the screen while a person answers it.
func (s *steps) over(h client.ElicitationHandler) client.ElicitationHandler {
	form, isForm := h.(*terminalForm)
	if s == nil || s.screen == nil || !isForm {
		return h
	}
	return &formOverSteps{form, s}
}

type formOverSteps struct {
	form  *terminalForm
	steps *steps
}

func (f *formOverSteps) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	f.pause(true)
	defer f.pause(false)
	return f.form.Elicit(ctx, request)
}

// pause leaves what has ended on the screen, and takes away what has not.
func (f *formOverSteps) pause(yes bool) {
	s := f.steps
	s.mu.Lock()
	defer s.mu.Unlock()
	if yes {
		width, _ := s.c.size()
		s.screen.draw(nil)
		s.screen.print(s.c.styled(s.tree.scroll(width, 0, time.Now())))
	}
	s.screen.paused = yes
}
