package backends

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// An olderError ends a session in 2026-07-28 with a server that lists no known revision
// from then on.
type olderError struct{ listed []string }

func (e *olderError) Error() string {
	return fmt.Sprintf("server/discover lists the protocol revisions %q, without 2026-07-28", e.listed)
}

// speaksOlder reports whether an error is that the server does not speak the revision of
// the request, and so did not execute it.
func speaksOlder(err error) bool {
	var refused *RPCError
	var older *olderError
	return errors.As(err, &older) || errors.As(err, &refused) && refused.Code == mcp.UNSUPPORTED_PROTOCOL_VERSION
}

// heedVersions makes an error of an answer to server/discover that does not list
// the revision of the request: mcp-go's client does not look at the list, and
// negotiates upon the error. Older is not nil where no other revision from
// 2026-07-28 on is listed that is known here. Servers of the official Go SDK that
// keep sessions answer so.
func heedVersions(req transport.JSONRPCRequest, answer *transport.JSONRPCResponse) (heeded *transport.JSONRPCResponse, older *olderError) {
	if req.Method != string(mcp.MethodServerDiscover) || answer == nil || answer.Error != nil {
		return answer, nil
	}
	var listed struct {
		SupportedVersions []string `json:"supportedVersions"`
	}
	asked := versionOf(req)
	if json.Unmarshal(answer.Result, &listed) == nil && slices.Contains(listed.SupportedVersions, asked) {
		return answer, nil
	}
	refusal := mcp.UnsupportedProtocolVersionError{Version: asked, Supported: listed.SupportedVersions}.JSONRPCError().Error
	if !mcp.IsModernProtocol(mcp.NegotiateMutuallySupportedVersion(listed.SupportedVersions)) {
		older = &olderError{listed.SupportedVersions}
	}
	return &transport.JSONRPCResponse{JSONRPC: answer.JSONRPC, ID: answer.ID, Error: &refusal}, older
}

// versionOf is the revision that a request of 2026-07-28 or later is in.
func versionOf(req transport.JSONRPCRequest) string {
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var version string
	if encoded, err := json.Marshal(req.Params); err == nil && json.Unmarshal(encoded, &params) == nil {
		_ = json.Unmarshal(params.Meta[mcp.MetaKeyProtocolVersion], &version) // "" is in no list
	}
	return version
}
