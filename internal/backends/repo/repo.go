// Package repo is an MCP server that reads the git repository in which it runs
// and writes review files into it: a real backend that needs nothing
// but git.
//
// Paths are relative to the top of the work tree and use slashes. A bad ref,
// path or repository is a result with isError whose text says what to do.
package repo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// workers is how many calls are served at once.
const workers = 16

// Serve serves the repository that contains the directory root over in and
// out until in ends or ctx does. It is an error if root is in no work tree.
// A process serves one client.
func Serve(ctx context.Context, root string, in io.Reader, out io.Writer) error {
	s, err := newServer(ctx, root)
	if err != nil {
		return err
	}
	stdio := server.NewStdioServer(s)
	server.WithWorkerPoolSize(workers)(stdio)
	if err := stdio.Listen(ctx, in, out); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving %s: %w", root, err)
	}
	return nil
}

// A repository is the work tree of the tools.
type repository struct {
	top string // absolute path of the work tree's top
}

func newServer(ctx context.Context, root string, options ...server.ServerOption) (*server.MCPServer, error) {
	top, err := topOf(ctx, root)
	if err != nil {
		return nil, err
	}
	options = append([]server.ServerOption{server.WithToolCapabilities(false), server.WithInputSchemaValidation()}, options...)
	s := server.NewMCPServer("perdure-repo", "1", options...)
	r := &repository{top: top}
	r.addReads(s)
	r.addReview(s)
	return s, nil
}

func (r *repository) addReads(s *server.MCPServer) {
	ref := mcp.WithString("ref", mcp.Description("Branch, tag or commit. Default HEAD."))
	base := mcp.WithString("base", mcp.Description("Branch, tag or commit to compare with. What head changed since it left base is shown. Default the parent of head, or nothing where head has none."))
	head := mcp.WithString("head", mcp.Description("Branch, tag or commit. Default HEAD."))
	path := mcp.WithString("path", mcp.Description("Only this file or directory."))

	add(s, "info", "What the repository is: branch, last commit, remote, uncommitted work, counts.", r.info, readOnly)
	add(s, "log", "Commits, newest first.", r.log, readOnly, ref, path,
		mcp.WithInteger("limit", mcp.Description("How many at most. Default 20."), mcp.Min(1), mcp.Max(200)))
	add(s, "diff", "What head changed since it left base, as a unified diff.", r.diff, readOnly, base, head, path,
		mcp.WithInteger("max_bytes", mcp.Description("Where to cut the diff. Default 200000."), mcp.Min(1), mcp.Max(maxDiff)))
	add(s, "changed_files", "Files that head changed since it left base, with counts of lines.", r.changedFiles, readOnly, base, head, path)
	add(s, "file_content", "A file as it is in a commit.", r.fileContent, readOnly,
		mcp.WithString("path", mcp.Required(), mcp.Description("The file, from the top of the repository.")),
		mcp.WithString("ref", mcp.Description("Branch, tag or commit, or worktree for a tracked file as it is on disk. Default HEAD.")),
		mcp.WithInteger("max_bytes", mcp.Description("The largest file to return. Default 1000000."), mcp.Min(1), mcp.Max(maxFile)))
	add(s, "list_files", "Files of a commit with their sizes.", r.listFiles, readOnly, ref,
		mcp.WithString("pattern", mcp.Description("Glob such as *.go, docs/*.md or cmd/**. Without a slash it is matched with the file's name alone. Default all.")))
	add(s, "contributors", "Who made the commits that head has and base has not.", r.contributors, readOnly, head,
		mcp.WithString("base", mcp.Description("Branch, tag or commit. Default none: the whole history of head.")))
	r.addCheckup(s)
}

func (r *repository) addCheckup(s *server.MCPServer) {
	tool := newTool[checkupResult]("checkup", "Checks that the repository is whole. Slow on large ones; reports its progress.", readOnly,
		mcp.WithNumber("pause_seconds", mcp.Description("How long to wait between the phases, to see a slow tool at work. Default 0."), mcp.Min(0), mcp.Max(60)))
	s.AddTool(tool, func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args checkupArgs
		if err := bind(req, &args); err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return answer(r.checkup(ctx, args, teller(ctx, req)))
	})
}

func (r *repository) addReview(s *server.MCPServer) {
	add(s, "write_review", "Writes a review as .perdure/reviews/NAME.md into the repository.", r.writeReview,
		func(t *mcp.Tool) { t.Annotations = hints(false) },
		mcp.WithString("name", mcp.Required(), mcp.Description("Name of the review."), mcp.Pattern(reviewName.String())),
		mcp.WithString("title", mcp.Required(), mcp.MinLength(1), mcp.MaxLength(200)),
		mcp.WithString("body", mcp.Required(), mcp.Description("Markdown."), mcp.MaxLength(maxReview)),
		mcp.WithBoolean("overwrite", mcp.Description("Replace a review of the same name. Default false.")))
}

func readOnly(t *mcp.Tool) { t.Annotations = hints(true) }

// hints are those of a tool that works on the repository only.
func hints(readOnly bool) mcp.ToolAnnotation {
	no := false
	return mcp.ToolAnnotation{ReadOnlyHint: &readOnly, DestructiveHint: &no, IdempotentHint: &readOnly, OpenWorldHint: &no}
}

func newTool[R any](name, description string, options ...mcp.ToolOption) mcp.Tool {
	options = append([]mcp.ToolOption{mcp.WithDescription(description), mcp.WithOutputSchema[R]()}, options...)
	return mcp.NewTool(name, options...)
}

// add adds a tool whose arguments are an A and whose result is an R.
func add[A, R any](s *server.MCPServer, name, description string, run func(context.Context, A) (*R, error), options ...mcp.ToolOption) {
	s.AddTool(newTool[R](name, description, options...), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args A
		if err := bind(req, &args); err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return answer(run(ctx, args))
	})
}

func bind(req mcp.CallToolRequest, args any) error {
	if req.GetRawArguments() == nil {
		return nil
	}
	if err := req.BindArguments(args); err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	return nil
}

// answer makes a tool's result: the structure and its JSON as text, or the
// error as a text that says what to do.
func answer[R any](result *R, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	text, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return mcp.NewToolResultStructured(result, string(text)), nil
}

// teller returns a function that sends progress to the caller, if the request asked for
// it.
func teller(ctx context.Context, req mcp.CallToolRequest) func(done, total float64, message string) {
	if req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return func(float64, float64, string) {}
	}
	return func(done, total float64, message string) {
		// Lost progress does not end the work.
		_ = server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{
			"progressToken": req.Params.Meta.ProgressToken, "progress": done, "total": total, "message": message,
		})
	}
}
