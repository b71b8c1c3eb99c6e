package backends

import (
	"errors"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

var (
	errOtherRequest   = errors.New("the answer has the id of another request")
	errResultAndError = errors.New("the answer has both a result and an error")
)

// capture records the answer of a request, or why it is none.
func (x *exchange) capture(req transport.JSONRPCRequest, answer *transport.JSONRPCResponse, err error) (*transport.JSONRPCResponse, error) {
	if answer == nil {
		return nil, err
	}
	bad, named := checkSize(req.Method, answer.Result), answer.ID.String() == req.ID.String()
	switch {
	case x.isRefusal(req, answer):
	case !named:
		bad = errOtherRequest
	case answer.Error != nil && len(answer.Result) > 0 && string(answer.Result) != "null":
		bad = errResultAndError
	}
	if bad != nil {
		x.set(func() { x.broke = bad })
		return nil, bad
	}
	x.set(func() { x.answer, x.named = answer, named })
	return answer, err
}

// isRefusal reports whether an error counts whatever else is in the answer: its HTTP status
// refuses the request, which the server then need not have read, or it is not that of a call.
func (x *exchange) isRefusal(req transport.JSONRPCRequest, answer *transport.JSONRPCResponse) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return answer.Error != nil && (x.status >= 300 || req.Method != string(mcp.MethodToolsCall))
}
