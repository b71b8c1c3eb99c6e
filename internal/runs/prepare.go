package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/perdure/perdure/workflows"
)

// attributeNames are the search attributes that runs need, all keywords.
var attributeNames = []string{
	workflows.AttrTool, workflows.AttrVersion, workflows.AttrStatus, workflows.AttrCaller, workflows.AttrWaiting,
	workflows.AttrRequest,
}

// SearchAttributes are the search attributes that a namespace needs for runs:
// name → type, as a development server takes them.
func SearchAttributes() map[string]string {
	types := map[string]string{}
	for _, name := range attributeNames {
		types[name] = "keyword"
	}
	return types
}

// A Namespace is where runs shall live.
type Namespace struct {
	Name string // "" = default
	// Register has it made if there is none: elsewhere that is a name that is misspelt.
	Register bool
	// Retention of closed runs, if the namespace is made. 0 = 30 days.
	Retention time.Duration
	// Logger gets what was made. nil = slog.Default().
	Logger *slog.Logger
}

const defaultRetention = 30 * 24 * time.Hour

// Prepare makes a namespace ready for runs: it adds the search attributes that it lacks,
// and registers it first if there is none and ns wants that. Several processes may do so at
// the same time.
//
// An error that has ErrUnavailable in its chain may pass; any other one reports what a
// person has to do first.
func Prepare(ctx context.Context, c client.Client, ns Namespace) error {
	ns.Name = cmp.Or(ns.Name, client.DefaultNamespace)
	ns.Retention = cmp.Or(ns.Retention, defaultRetention)
	ns.Logger = cmp.Or(ns.Logger, slog.Default())
	if err := ensureNamespace(ctx, c, ns); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for pause := newBackoff(); ; {
		err := ensureSearchAttributes(ctx, c, ns)
		var unknown *serviceerror.NamespaceNotFound // it was registered a moment ago
		if !errors.As(err, &unknown) || !pause.wait(within) {
			return err
		}
	}
}

func ensureNamespace(ctx context.Context, c client.Client, ns Namespace) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: ns.Name})
	var missing *serviceerror.NamespaceNotFound
	switch {
	case err == nil, refused(err): // who may start runs need not be allowed to look at the namespace
		return nil
	case !errors.As(err, &missing):
		return unprepared(ctx, "looking for namespace "+ns.Name, err)
	case !ns.Register:
		return fmt.Errorf("namespace %s not found; correct --namespace or TEMPORAL_NAMESPACE, or create it with --create-namespace, or with: %s", ns.Name, creation(ns))
	}
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        ns.Name,
		Description:                      "Runs of composite MCP tools.",
		WorkflowExecutionRetentionPeriod: durationpb.New(ns.Retention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	switch {
	case err == nil:
		ns.Logger.Info("registered a namespace", "namespace", ns.Name, "retention", ns.Retention.String())
		return nil
	case errors.As(err, &exists): // another process was faster
		return nil
	case refused(err):
		return fmt.Errorf("namespace %s not found, and Temporal does not let this program register it; "+
			"register it with: %s: %w: %w", ns.Name, creation(ns), ErrNotPermitted, err)
	}
	return unprepared(ctx, "registering namespace "+ns.Name, err)
}

// creation is the command that registers a namespace.
func creation(ns Namespace) string {
	return fmt.Sprintf("temporal operator namespace create --namespace %s --retention %gh", ns.Name, ns.Retention.Hours())
}

// ensureSearchAttributes adds the search attributes that are missing, and waits
// until they can be used.
func ensureSearchAttributes(ctx context.Context, c client.Client, ns Namespace) error {
	missing, err := missingAttributes(ctx, c, ns.Name)
	if err != nil || len(missing) == 0 {
		return err
	}
	added := map[string]enumspb.IndexedValueType{}
	for _, name := range missing {
		added[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: ns.Name, SearchAttributes: added,
	})
	var exists *serviceerror.AlreadyExists
	switch {
	case err == nil:
		ns.Logger.Info("added search attributes to the namespace", "namespace", ns.Name, "attributes", missing)
	case errors.As(err, &exists): // another process was faster
	case refused(err):
		return fmt.Errorf("namespace %s lacks search attributes, and Temporal does not let this program add them; "+
			"add them with: temporal operator search-attribute create --namespace %s --type Keyword --name %s: %w: %w",
			ns.Name, ns.Name, strings.Join(missing, " --name "), ErrNotPermitted, err)
	default:
		return unprepared(ctx, "adding search attributes to namespace "+ns.Name, err)
	}
	return awaitSearchAttributes(ctx, c, ns.Name)
}

// missingAttributes are the search attributes that the namespace lacks.
func missingAttributes(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	switch {
	case refused(err):
		return attributesByQuery(ctx, c, namespace)
	case err != nil:
		return nil, unprepared(ctx, "listing search attributes of namespace "+namespace, err)
	}
	var missing []string
	for _, name := range attributeNames {
		kind, ok := known.CustomAttributes[name]
		if ok && kind != enumspb.INDEXED_VALUE_TYPE_KEYWORD {
			return nil, fmt.Errorf("search attribute %s of namespace %s has type %s; it must be Keyword", name, namespace, kind)
		}
		if !ok {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// attributesByQuery finds out whether the search attributes are there for a
// program that may not list them.
func attributesByQuery(ctx context.Context, c client.Client, namespace string) (missing []string, err error) {
	err = countByAttributes(ctx, c, namespace)
	var unknown *serviceerror.InvalidArgument
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &unknown):
		return attributeNames, nil
	case refused(err):
		return nil, fmt.Errorf("namespace %s is closed to this program, or does not exist: %w: %w", namespace, ErrNotPermitted, err)
	}
	return nil, unprepared(ctx, "looking for search attributes of namespace "+namespace, err)
}

// awaitSearchAttributes waits until the server's caches know the attributes.
func awaitSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for pause := newBackoff(); ; {
		err := countByAttributes(ctx, c, namespace)
		if err == nil {
			return nil
		}
		if !pause.wait(ctx) {
			return fmt.Errorf("waiting for the search attributes of namespace %s: %w: %w", namespace, ErrUnavailable, err)
		}
	}
}

// countByAttributes makes a query that only a namespace with the attributes
// answers.
func countByAttributes(ctx context.Context, c client.Client, namespace string) error {
	var terms []string
	for _, name := range attributeNames {
		terms = append(terms, name+" = 'x'")
	}
	_, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: namespace, Query: strings.Join(terms, " AND "),
	})
	return err
}

// refused reports whether Temporal answered that this program may not do something, or
// that it cannot be done in this way.
func refused(err error) bool {
	var (
		denied  *serviceerror.PermissionDenied
		unknown *serviceerror.Unimplemented
	)
	return errors.As(err, &denied) || errors.As(err, &unknown)
}

// unprepared wraps an error that may pass with ErrUnavailable.
func unprepared(ctx context.Context, doing string, err error) error {
	var unknown *serviceerror.NamespaceNotFound // it was registered a moment ago
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case shutOut(err):
		return fmt.Errorf("%s: Temporal does not take the API key or certificate of this program: %w: %w", doing, ErrNotPermitted, err)
	case unavailable(err), errors.As(err, &unknown), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
