package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/perdure/perdure/workflows"
)

// A strictIndex is Temporal's, with so many waiting runs, and with its limit.
type strictIndex struct {
	waiting int
	limit   *rate.Limiter

	mu             sync.Mutex
	asked, refused int
}

func newStrictIndex(waiting int, limit rate.Limit) *strictIndex {
	return &strictIndex{waiting: waiting, limit: rate.NewLimiter(limit, int(limit))}
}

func (s *strictIndex) take() error {
	s.mu.Lock()
	s.asked++
	ok := s.limit.Allow()
	if !ok {
		s.refused++
	}
	s.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	if !ok {
		return serviceerror.NewResourceExhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "namespace rate limit exceeded")
	}
	return nil
}

func (s *strictIndex) ListWorkflowExecutions(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest, _ ...grpc.CallOption) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if err := s.take(); err != nil {
		return nil, err
	}
	from := 0
	_, _ = fmt.Sscan(string(r.NextPageToken), &from)
	answer := &workflowservice.ListWorkflowExecutionsResponse{}
	kind, _ := converter.GetDefaultDataConverter().ToPayload("approval")
	for i := from; i < min(from+int(r.PageSize), s.waiting); i++ {
		answer.Executions = append(answer.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: fmt.Sprint("gate/", i)}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{workflows.AttrWaiting: kind}},
		})
	}
	if next := from + int(r.PageSize); next < s.waiting {
		answer.NextPageToken = []byte(fmt.Sprint(next))
	}
	return answer, nil
}

func (s *strictIndex) CountWorkflowExecutions(_ context.Context, r *workflowservice.CountWorkflowExecutionsRequest, _ ...grpc.CallOption) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	if err := s.take(); err != nil {
		return nil, err
	}
	if !strings.Contains(r.Query, "GROUP BY") {
		n := int64(0)
		if strings.Contains(r.Query, "'approval'") {
			n = int64(s.waiting)
		}
		return &workflowservice.CountWorkflowExecutionsResponse{Count: n}, nil
	}
	running, _ := converter.GetDefaultDataConverter().ToPayload("Running")
	return &workflowservice.CountWorkflowExecutionsResponse{Groups: []*workflowservice.CountWorkflowExecutionsResponse_AggregationGroup{
		{GroupValues: []*commonpb.Payload{running}, Count: int64(s.waiting)},
	}}, nil
}

func listsOf(ask asker, log *slog.Logger) lists {
	return lists{reader{&archive{namespace: "default", converter: converter.GetDefaultDataConverter(), log: log}}, newIndex(ask, nil, log)}
}

// Where the index may be asked ten times a second, metrics of three gateways are there
// with 5,000 waiting runs, and so are lists, even when many are wanted at once.
func TestIndexAtItsDefaultLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		temporal := newStrictIndex(5000, 10)
		var log bytes.Buffer
		var gateways []lists
		for range 3 {
			gateways = append(gateways, listsOf(temporal, slog.New(slog.NewTextHandler(&log, nil))))
		}
		var all sync.WaitGroup
		for _, c := range gateways {
			all.Go(func() {
				for range 12 { // two minutes of metrics
					began := time.Now()
					counts, err := c.Count(t.Context())
					if err != nil || counts.Waiting["approval"] != 5000 || counts.Status[Waiting] != 5000 {
						t.Errorf("counting: %+v, %v", counts, err)
					}
					if took := time.Since(began); took > 30*time.Second {
						t.Errorf("counting took %s", took)
					}
					time.Sleep(10 * time.Second)
				}
			})
		}
		time.Sleep(time.Minute)
		for i := range 30 { // pages of people who may see different runs
			all.Go(func() {
				if page, _, err := gateways[i%3].ListPage(t.Context(), Filter{Waiting: true, Caller: fmt.Sprint("person ", i)}, ""); err != nil || len(page) != 50 {
					t.Errorf("page %d: %d runs, %v", i, len(page), err)
				}
			})
		}
		for range 12 { // commands, each a process of its own
			all.Go(func() {
				if list, err := listsOf(temporal, slog.New(slog.DiscardHandler)).List(t.Context(), Filter{}); err != nil || len(list) != 50 {
					t.Errorf("command: %d runs, %v", len(list), err)
				}
			})
		}
		all.Wait()
		if n := strings.Count(log.String(), "is queried more often"); n < 1 || n > 3 {
			t.Errorf("the log says %d times that the index is asked too often", n)
		}
		t.Logf("asked %d times, refused %d times", temporal.asked, temporal.refused)
		if temporal.refused > temporal.asked/2 {
			t.Errorf("of %d questions %d were refused", temporal.asked, temporal.refused)
		}
	})
}

// Of more than 1,000 waiting runs, open elicitations are counted by their runs: those of
// runs that wait for a person, and without an age where none was looked at.
func TestGatesOfMany(t *testing.T) {
	t.Parallel()
	counts, err := listsOf(newStrictIndex(1500, 1000), slog.New(slog.DiscardHandler)).Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for kind, g := range counts.Gates {
		age, known := g.Age()
		if want := kind != "approval"; known != want || age != 0 {
			t.Errorf("%s: an age of %s, known: %t", kind, age, known)
		}
	}
	if n := counts.Gates["approval"].Open; n != 1500 || len(counts.Gates) != 4 {
		t.Errorf("%d open elicitations; %+v", n, counts.Gates)
	}
}

// The same question of many is put once for those who wait, and who comes when it
// was put gets an answer of their own.
func TestIndexSharesQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		temporal := newStrictIndex(3, 1000)
		c := listsOf(temporal, slog.New(slog.DiscardHandler))
		ask := func(n int) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					if list, err := c.List(t.Context(), Filter{}); err != nil || len(list) != 3 {
						t.Errorf("%d runs, %v", len(list), err)
					}
				})
			}
			all.Wait()
		}
		c.index.turns.AllowN(time.Now(), indexBurst) // so that they wait for their turn
		ask(100)
		if temporal.asked > 2 {
			t.Errorf("%d questions for 100 who asked at once", temporal.asked)
		}
		before := temporal.asked
		ask(1)
		if temporal.asked != before+1 {
			t.Errorf("an answer of before was given")
		}
	})
}

// A request to an index that refuses for too long gets an error that says what to do.
func TestIndexThatRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := listsOf(newStrictIndex(1, 0), slog.New(slog.DiscardHandler))
		began := time.Now()
		_, err := c.List(t.Context(), Filter{})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "frontend.namespaceRPS.visibility") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > indexPatience+100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
	})
}
