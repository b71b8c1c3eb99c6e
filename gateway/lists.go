package gateway

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/internal/web"
)

// A listedTool is a tool as it is listed, encoded when the listing is made.
type listedTool struct {
	name      string
	composite bool
	encoded   []byte // a JSON object
}

// forTasks is what a composite tool has in place of its last brace, for clients that
// may call it as a task of 2025-11-25.
const forTasks = `,"execution":{"taskSupport":"` + string(mcp.TaskSupportOptional) + `"}}`

// Lists answer tools/list.
type lists struct {
	tools   *toolset
	rights  *rights
	scripts *scripts
	server  mcp.Implementation // what lists say of this one
	scope   mcp.CacheScope     // who may share a list
}

// serve lists the tools that a client may call, all on one page.
func (ls *lists) serve(ctx context.Context, x *exchange) {
	l := ls.tools.now()
	if x.badParams != nil {
		x.fail(mcp.INVALID_PARAMS, unreadable(x.badParams))
	} else if x.params.Cursor != "" {
		x.fail(mcp.INVALID_PARAMS, "unknown cursor: the list has one page")
	} else if err := web.Reserve(ctx, l.size()); err != nil { // backends may make it large
		x.failFull("", err)
	} else {
		x.answer("", http.StatusOK, ls.page(x, l))
	}
}

// page is the response with the tools of a listing that a client may call.
func (ls *lists) page(x *exchange, l *listing) []byte {
	_, tasks := x.dialect.taskMethods(x.client) // only 2025-11-25 lists tasks, and announces them with tools
	head := mustEncode(envelope{JSONRPC: mcp.JSONRPC_VERSION, ID: x.id, Result: x.dialect.list(ls.server, ls.scope)})
	page := slices.Grow(bytes.TrimSuffix(head, []byte("}}")), int(l.size()))
	if page[len(page)-1] != '{' {
		page = append(page, ',')
	}
	page = append(page, `"tools":[`...)
	first := true
	for _, t := range l.listed {
		if !ls.rights.offered(x.who, t.name) {
			continue
		}
		if !first {
			page = append(page, ',')
		}
		first = false
		switch {
		case t.name == scriptTool:
			page = append(page, mustEncode(ls.scripts.describe(x.who, ls.tools.reserved(scriptTool)))...)
		case t.composite && tasks:
			page = append(append(page, t.encoded[:len(t.encoded)-1]...), forTasks...)
		default:
			page = append(page, t.encoded...)
		}
	}
	return append(page, "]}}"...)
}
