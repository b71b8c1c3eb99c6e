package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
)

// A standIn takes the place of the id of a request while mcp-go handles it.
// mcp-go reads numbers as float64, so an id of 2^53 or more would come back as
// another one, and 1e3 as 1000.
type standIn struct {
	id     []byte // as the client has sent it
	quoted []byte // the JSON string in its place; unguessable
}

// standInFor returns nil for an id that mcp-go gives back as it came.
func standInFor(id json.RawMessage) *standIn {
	var read mcp.RequestId
	if json.Unmarshal(id, &read) != nil {
		return nil // mcp-go reports that it is no id
	}
	if _, text := read.Value().(string); text || isNull(id) {
		return nil
	}
	if back, err := json.Marshal(read); err == nil && bytes.Equal(back, bytes.TrimSpace(id)) {
		return nil
	}
	return &standIn{id: bytes.Clone(bytes.TrimSpace(id)), quoted: mustEncode("id-" + newNonce())}
}

// into returns a request with the stand-in in place of its id.
func (s *standIn) into(request []byte) []byte {
	if s == nil {
		return request
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(request, &members) != nil {
		return request
	}
	members["id"] = s.quoted
	changed, err := encode(members)
	if err != nil {
		return request
	}
	return changed
}

// restore returns what mcp-go has written with the client's id.
func (s *standIn) restore(written []byte) []byte {
	return bytes.ReplaceAll(written, s.quoted, s.id)
}

// writer returns an http.ResponseWriter that restores the id. mcp-go writes
// each message at once.
func (s *standIn) writer(w http.ResponseWriter) http.ResponseWriter {
	if s == nil {
		return w
	}
	return &restoring{ResponseWriter: w, id: s}
}

type restoring struct {
	http.ResponseWriter
	id *standIn
}

func (r *restoring) Write(b []byte) (int, error) {
	if _, err := r.ResponseWriter.Write(r.id.restore(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush implements http.Flusher, without which mcp-go does not stream.
func (r *restoring) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (r *restoring) Unwrap() http.ResponseWriter { return r.ResponseWriter }
