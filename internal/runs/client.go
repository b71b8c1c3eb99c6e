package runs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/perdure/perdure/internal/secrets"
)

// A Config has where the runs are.
type Config struct {
	// Client of the Temporal server. A run starts fastest where the worker
	// uses the same one (eager start).
	Client client.Client
	// Namespace of Client. "" = default.
	Namespace string
	// DataConverter of Client. nil = the SDK's default.
	DataConverter converter.DataConverter
	// MaxValue bounds what tools are given and give in the runs that are started,
	// in bytes, where Client keeps large values elsewhere. 0 = what Temporal takes.
	MaxValue int
	// Keys sign signals to runs. nil = none are sent: runs reject unsigned signals.
	Keys *secrets.Keys
	// LargeInputs is DataConverter that keeps large values elsewhere, with which
	// runs are resumed that know of that. nil = there is nowhere to.
	LargeInputs converter.DataConverter
	// Reserve waits until what ctx is of may hold so many bytes of an outcome, until it
	// ends. Its errors are returned. nil = there is no bound.
	Reserve func(ctx context.Context, bytes int64) error
	// Reader is the reader that ctx belongs to, "" = none in particular. Each reader
	// has one query of Temporal's index waiting at a time. nil = all wait alike.
	Reader func(ctx context.Context) string
	// News of the worker that uses Client. nil = there is none: what happens to runs is
	// polled for.
	News *News
	// Witness of the connection of Client. nil = what Temporal loses is not noticed.
	Witness *Witness
	// Now is the time by the clock that processes share. nil = that of this process.
	Now func() time.Time
	// Logger gets what goes wrong and is tried again. nil = slog.Default().
	Logger *slog.Logger
}

// A Client is the door to the runs of one namespace. Its methods, which are those of its
// parts, may be called at the same time.
type Client struct {
	*archive
	starter
	reader
	logs
	lists
	answers
	control
	clients
	queues
	watches
	witness *Witness
	large   converter.DataConverter // Config.LargeInputs
}

// New makes a Client. It sends no requests.
func New(cfg Config) *Client {
	a := &archive{
		temporal:  cfg.Client,
		namespace: cmp.Or(cfg.Namespace, client.DefaultNamespace),
		converter: cfg.DataConverter,
		keys:      cfg.Keys,
		news:      cfg.News,
		log:       cmp.Or(cfg.Logger, slog.Default()),
		reserve:   cfg.Reserve,
		now:       cfg.Now,
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.converter == nil {
		a.converter = converter.GetDefaultDataConverter()
	}
	r := reader{a}
	l := lists{reader: r}
	if a.temporal != nil {
		l.index = newIndex(a.temporal.WorkflowService(), cfg.Reader, a.log)
	}
	return &Client{
		archive: a, starter: starter{a, cfg.MaxValue}, reader: r, logs: logs{a}, lists: l, answers: answers{r}, control: control{l},
		clients: clients{a}, queues: queues{a}, watches: watches{archive: a}, witness: cfg.Witness, large: cfg.LargeInputs,
	}
}

// NewID makes up the ID of a run of a tool: NAME/ and 10 random characters.
func NewID(tool string) RunID {
	return RunID(tool + "/" + randomName(10))
}

// randomName is made of lower-case letters and the digits 2 to 7.
func randomName(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return strings.ToLower(base32.StdEncoding.EncodeToString(b))[:n]
}

// failure wraps an error of Temporal's with the sentinel that it represents. A Temporal
// that does not answer while there is time is one that cannot be reached. id "" = all runs.
func failure(ctx context.Context, doing string, id RunID, err error) error {
	if id == "" {
		doing += " runs"
	} else {
		doing += " run " + string(id)
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, ctx.Err())
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	var (
		notFound    *serviceerror.NotFound
		noNamespace *serviceerror.NamespaceNotFound
	)
	switch {
	case errors.Is(err, ErrLost):
		return fmt.Errorf("%s: %w", doing, ErrLost)
	case errors.As(err, &noNamespace):
		return fmt.Errorf("%s: %w", doing, noNamespaceError(noNamespace.Namespace))
	case errors.As(err, &notFound):
		return fmt.Errorf("%s: %w", doing, ErrNotFound)
	case shutOut(err):
		return fmt.Errorf("%s: %w: %w", doing, errShutOut, err)
	case unavailable(err), errors.Is(err, errBusy):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// unavailable reports whether an error means that Temporal is unavailable for now.
func unavailable(err error) bool {
	var (
		unavailable *serviceerror.Unavailable
		deadline    *serviceerror.DeadlineExceeded
		exhausted   *serviceerror.ResourceExhausted
		canceled    *serviceerror.Canceled
		internal    *serviceerror.Internal
		notReady    *serviceerror.NamespaceUnavailable
	)
	return shutOut(err) || errors.As(err, &unavailable) || errors.As(err, &deadline) || errors.As(err, &exhausted) ||
		errors.As(err, &canceled) || errors.As(err, &internal) || errors.As(err, &notReady)
}

// errShutOut says that Temporal lets nobody in who has the credentials of this program, so
// that nothing was done.
var errShutOut = fmt.Errorf("%w: it does not let this program in", ErrUnavailable)

// A noNamespaceError names a namespace that Temporal does not know: it was misspelt or
// deleted, or registered a moment ago.
type noNamespaceError string

func (e noNamespaceError) Error() string {
	return fmt.Sprintf("Temporal has no namespace %s; correct --namespace or TEMPORAL_NAMESPACE", string(e))
}

// Is reports that it may pass.
func (noNamespaceError) Is(target error) bool { return target == ErrUnavailable }

// shutOut reports whether that is so: an API key or a certificate has expired, was
// withdrawn, or lacks a permission.
func shutOut(err error) bool {
	var denied *serviceerror.PermissionDenied
	return errors.As(err, &denied) || grpcstatus.Code(err) == codes.Unauthenticated
}

// A backoff spaces attempts out.
type backoff struct{ next, limit time.Duration }

func newBackoff() *backoff { return &backoff{next: 20 * time.Millisecond, limit: 2 * time.Second} }

// wait reports whether it is time for another attempt; false = ctx has ended.
func (b *backoff) wait(ctx context.Context) bool {
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	b.next = min(b.next*3/2, b.limit)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
