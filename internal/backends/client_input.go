package backends

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// amend adds the client's capabilities and answers to a call of 2026-07-28. mcp-go's
// client has the same capabilities for all calls: none.
func (x *exchange) amend(req transport.JSONRPCRequest) transport.JSONRPCRequest {
	if x.input == nil || req.Method != string(mcp.MethodToolsCall) {
		return req
	}
	fields, meta := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	encoded, err := json.Marshal(req.Params)
	if err != nil || json.Unmarshal(encoded, &fields) != nil || json.Unmarshal(fields["_meta"], &meta) != nil {
		return req
	}
	if _, modern := meta[mcp.MetaKeyClientCapabilities]; !modern {
		return req
	}
	meta[mcp.MetaKeyClientCapabilities] = x.input.Capabilities
	if fields["_meta"], err = json.Marshal(meta); err != nil {
		return req
	}
	if len(x.input.Responses) > 0 {
		fields["inputResponses"] = x.input.Responses
	}
	if x.input.State != "" {
		state, _ := json.Marshal(x.input.State) // a string always encodes
		fields["requestState"] = state
	}
	req.Params = fields
	return req
}
