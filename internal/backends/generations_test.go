package backends

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// A generation answers over HTTP as servers on one generation of the Python SDK
// do (modelcontextprotocol/python-sdk, src/mcp/server/streamable_http.py of 1.x,
// src/mcp/server/_streamable_http_modern.py of 2.x).
type generation struct {
	discovers []string // supportedVersions of server/discover; nil = there is no such method
	stateless bool     // whether requests of 2026-07-28 are served
	sessions  bool     // whether initialize is

	mu       sync.Mutex
	requests []string // methods, with the revision of each
}

const pythonSession = "abc"

func (g *generation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	version := r.Header.Get("Mcp-Protocol-Version")
	g.mu.Lock()
	g.requests = append(g.requests, request.Method+" "+version)
	g.mu.Unlock()
	refuse := func(code int, message string, data any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": request.ID, "error": map[string]any{"code": code, "message": message, "data": data}})
	}
	modern := mcp.IsModernProtocol(version)
	switch {
	case modern && request.Method == "server/discover" && g.discovers != nil:
		g.answer(w, request.ID, map[string]any{"supportedVersions": g.discovers, "capabilities": map[string]any{"tools": map[string]any{}}, "resultType": "complete"})
	case modern && g.stateless:
		g.serve(w, request.ID, request.Method)
	case modern && g.discovers != nil:
		refuse(mcp.UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", map[string]any{"supported": g.discovers, "requested": version})
	case request.Method == "initialize" && g.sessions:
		w.Header().Set("Mcp-Session-Id", pythonSession)
		g.answer(w, request.ID, map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{"listChanged": false}}, "serverInfo": map[string]any{"name": "py", "version": "1"}})
	case !g.sessions:
		refuse(mcp.UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", map[string]any{"supported": []string{"2026-07-28"}, "requested": version})
	case r.Header.Get("Mcp-Session-Id") == "":
		refuse(mcp.INVALID_REQUEST, "Bad Request: Missing session ID", nil)
	case modern:
		refuse(mcp.INVALID_REQUEST, "Bad Request: Unsupported protocol version: "+version, nil)
	case len(request.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		g.serve(w, request.ID, request.Method)
	}
}

func (g *generation) serve(w http.ResponseWriter, id json.RawMessage, method string) {
	switch method {
	case "tools/list":
		g.answer(w, id, map[string]any{"tools": []any{map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}}}, "resultType": "complete"})
	case "tools/call":
		g.answer(w, id, map[string]any{"content": []any{map[string]any{"type": "text", "text": "one"}}, "resultType": "complete"})
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": mcp.METHOD_NOT_FOUND, "message": "Method not found"}})
	}
}

// answer is an event, as in both generations.
func (g *generation) answer(w http.ResponseWriter, id json.RawMessage, result any) {
	w.Header().Set("Content-Type", "text/event-stream")
	message, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	fmt.Fprintf(w, "event: message\r\ndata: %s\r\n\r\n", message)
}

func (g *generation) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requests)
}

// TestGenerations connects to servers that say in different ways which revisions
// they speak.
func TestGenerations(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server  *generation
		version string
	}{
		"python 1, with sessions":           {&generation{sessions: true}, "2025-11-25"},
		"python 2, all revisions":           {&generation{discovers: []string{"2026-07-28"}, stateless: true, sessions: true}, "2026-07-28"},
		"python 2, new revisions only":      {&generation{discovers: []string{"2026-07-28"}, stateless: true}, "2026-07-28"},
		"discovers older revisions only":    {&generation{discovers: []string{"2025-11-25", "2025-06-18"}, sessions: true}, "2025-11-25"},
		"discovers nothing":                 {&generation{discovers: []string{}, sessions: true}, "2025-11-25"},
		"discovers a later one, and older":  {&generation{discovers: []string{"2030-01-01", "2025-11-25"}, sessions: true}, "2025-11-25"},
		"discovers more than it serves":     {&generation{discovers: []string{"2026-07-28", "2025-11-25"}, sessions: true}, "2025-11-25"},
		"discovers a later one, and serves": {&generation{discovers: []string{"2030-01-01", "2026-07-28"}, stateless: true}, "2026-07-28"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, httpConfig(serve(t, tc.server).URL))
			if got := p.Status()[0].ProtocolVersion; got != tc.version {
				t.Errorf("the revision is %s, want %s", got, tc.version)
			}
			echoes(t, p)
			for _, request := range tc.server.seen() {
				if strings.HasPrefix(request, "tools/call") && request != "tools/call "+tc.version {
					t.Errorf("a request in another revision: %s", request)
				}
			}
		})
	}
}

// A server that speaks no revision that is known here is down, with a reason.
func TestGenerationOfTheFuture(t *testing.T) {
	t.Parallel()
	p := openUnready(t, httpConfig(serve(t, &generation{discovers: []string{"2030-01-01"}}).URL))
	for !p.Status()[0].Tried {
		time.Sleep(time.Millisecond)
	}
	if s := p.Status()[0]; s.Up || !strings.Contains(s.Error, "2030-01-01") || !strings.Contains(s.Error, "2026-07-28") {
		t.Errorf("the status is %+v", s)
	}
}

// serveLate is a server on stdio as version 2 of the Python SDK is one that starts
// slowly: the first server/discover, for which nobody waits any more, has made it
// one of 2026-07-28, so it refuses initialize.
func serveLate() {
	discovered := false
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &request) != nil || len(request.ID) == 0 {
			continue
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": request.ID}
		refuse := func(code int, data any) {
			answer["error"] = map[string]any{"code": code, "message": request.Method, "data": data}
		}
		switch {
		case request.Method == "server/discover" && !discovered:
			discovered = true
			refuse(mcp.REQUEST_INTERRUPTED, nil)
		case request.Method == "server/discover":
			answer["result"] = map[string]any{"supportedVersions": []string{"2026-07-28"}, "capabilities": map[string]any{"tools": map[string]any{}}, "resultType": "complete"}
		case request.Method == "initialize":
			refuse(mcp.UNSUPPORTED_PROTOCOL_VERSION, map[string]any{"supported": []string{"2026-07-28"}, "requested": "2025-11-25"})
		case request.Method == "tools/list":
			answer["result"] = map[string]any{"tools": []any{}, "resultType": "complete"}
		default:
			refuse(mcp.METHOD_NOT_FOUND, nil)
		}
		text, _ := json.Marshal(answer)
		fmt.Println(string(text))
	}
}

// A server that answers server/discover too late is asked again.
func TestLateDiscover(t *testing.T) {
	t.Parallel()
	p := open(t, childConfig("late"))
	if got := p.Status()[0].ProtocolVersion; got != "2026-07-28" {
		t.Errorf("the revision is %s", got)
	}
}

// A server whose replicas are of two generations serves calls all the same.
func TestGenerationsMixed(t *testing.T) {
	t.Parallel()
	newer, older := &generation{discovers: []string{"2026-07-28"}, stateless: true, sessions: true}, &generation{discovers: []string{"2025-11-25"}, sessions: true}
	var mu sync.Mutex
	now := newer
	p := open(t, httpConfig(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		to := now
		mu.Unlock()
		to.ServeHTTP(w, r)
	})).URL))
	echoes(t, p)
	mu.Lock()
	now = older
	mu.Unlock()
	echoes(t, p)
	if got := p.Status()[0].ProtocolVersion; got != "2025-11-25" {
		t.Errorf("the revision is %s", got)
	}
}
