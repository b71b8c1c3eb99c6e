package backends

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// A Forwarding names what backends get of the requests of callers. The zero Forwarding
// forwards nothing.
type Forwarding struct {
	Headers []string // of HTTP; see CheckForwardedHeader
	Meta    []string // keys of _meta, or their beginnings with * at the end; see CheckForwardedMeta
}

// Forwarded is what backends get of one request.
type Forwarded struct {
	Headers Headers                    // streamable-http, sse
	Meta    map[string]json.RawMessage // of _meta
}

// maxForwarded bounds what is forwarded of a request, in bytes.
const maxForwarded = 64 << 10

// Nothing reports whether no request has anything to forward.
func (f Forwarding) Nothing() bool { return len(f.Headers) == 0 && len(f.Meta) == 0 }

// Of gives what to forward of a request: of its headers, nil = none, and of its params.
// The error is that it is too much.
func (f Forwarding) Of(header http.Header, params json.RawMessage) (out Forwarded, err error) {
	size := 0
	for _, name := range f.Headers {
		if value := strings.Join(header.Values(name), ", "); value != "" {
			if out.Headers == nil {
				out.Headers = Headers{}
			}
			out.Headers[http.CanonicalHeaderKey(name)] = Secret(value)
			size += len(name) + len(value)
		}
	}
	if len(f.Meta) > 0 {
		var sent struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		_ = json.Unmarshal(params, &sent)   // the code that needs params reports it
		for key, value := range sent.Meta { // which may have so many that it is not kept
			if !f.names(key) {
				continue
			}
			if out.Meta == nil {
				out.Meta = map[string]json.RawMessage{}
			}
			out.Meta[key] = value
			size += len(key) + len(value)
		}
	}
	if size > maxForwarded {
		return Forwarded{}, fmt.Errorf("headers and _meta for backends have %d bytes; the limit is %d", size, maxForwarded)
	}
	return out, nil
}

// names reports whether a key of _meta is forwarded.
func (f Forwarding) names(key string) bool {
	if CheckForwardedMeta(key) != nil {
		return false
	}
	return slices.ContainsFunc(f.Meta, func(pattern string) bool {
		start, open := strings.CutSuffix(pattern, "*")
		return key == pattern || open && strings.HasPrefix(key, start)
	})
}

// Nothing reports whether there is nothing to forward.
func (f Forwarded) Nothing() bool { return len(f.Headers) == 0 && len(f.Meta) == 0 }

// texts are those in the values of Meta.
func (f Forwarded) texts() (texts []string) {
	var collect func(any)
	collect = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, item := range v {
				collect(item)
			}
		case map[string]any:
			for _, item := range v {
				collect(item)
			}
		}
	}
	for _, raw := range f.Meta {
		var v any
		_ = json.Unmarshal(raw, &v) // it was read with its request
		collect(v)
	}
	return texts
}

// traces are headers and keys of _meta that are others each time a call is sent.
var traces = []string{"traceparent", "tracestate", "baggage"}

// Name is the same for requests that forward the same, but for what belongs to traces; "" =
// they forward nothing.
func (f Forwarded) Name() string {
	meta := maps.Clone(f.Meta)
	maps.DeleteFunc(meta, func(key string, _ json.RawMessage) bool { return slices.Contains(traces, key) })
	headers := f.identity()
	if headers == "" && len(meta) == 0 {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintln(sum, headers)
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		fmt.Fprintf(sum, "%q %q\n", key, meta[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Mark is part of the name under which a run's Forwarded is kept. It has a salt, since
// names are in histories, and what is forwarded may be easy to guess.
func (f Forwarded) Mark() string { return f.mark(rand.Text()) }

// IsMarked reports whether a name has a Mark of the same Name; "" is that of nothing.
func (f Forwarded) IsMarked(name string) bool {
	if name == "" {
		return f.Name() == ""
	}
	for part := range strings.SplitSeq(name, "/") {
		if salt, _, ok := strings.Cut(part, "-"); ok && part == f.mark(salt) {
			return true
		}
	}
	return false
}

func (f Forwarded) mark(salt string) string {
	sum := sha256.Sum256([]byte(salt + f.Name()))
	return salt + "-" + hex.EncodeToString(sum[:16])
}

// identity names the headers, for sessions with a server that may distinguish callers
// by them, but for those of traces; "" = none.
func (f Forwarded) identity() string {
	headers := maps.Clone(f.Headers)
	maps.DeleteFunc(headers, func(name string, _ Secret) bool { return slices.Contains(traces, strings.ToLower(name)) })
	if len(headers) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(sum, "%q %q\n", name, string(headers[name]))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ownHeaders are set by perdure or its HTTP client, or decide where a request goes and
// who sent it.
var ownHeaders = []string{
	"Host", "Origin", "Referer", "Accept", "Accept-Encoding", "Last-Event-Id", "Expect", "Range",
	"Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Http2-Settings", "Transfer-Encoding",
	"Forwarded", "X-Real-Ip",
}

// CheckForwardedHeader reports why a header of callers cannot be forwarded; nil = it
// can.
func CheckForwardedHeader(name string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case canonical == "Authorization":
		return fmt.Errorf("%s is the caller's credential for perdure; outgoingAuth with type token_exchange or pass_through gives backends one", name)
	case canonical == "Cookie":
		return fmt.Errorf("%s has credentials of the caller for perdure, which no backend may get", name)
	case slices.Contains(ownHeaders, canonical), hasAnyPrefix(canonical, "Content-", "Mcp-", "Proxy-", "Sec-", "X-Forwarded-"):
		return fmt.Errorf("%s belongs to one connection, and cannot be forwarded", name)
	}
	return nil
}

// CheckForwardedMeta reports why a key of _meta cannot be forwarded; nil = it can.
func CheckForwardedMeta(key string) error {
	prefix, _, _ := strings.Cut(key, "/")
	labels := strings.Split(prefix, ".")
	reserved := len(labels) > 1 && (labels[1] == "modelcontextprotocol" || labels[1] == "mcp")
	if key == "progressToken" || strings.HasPrefix(key, "perdure/") || reserved {
		return fmt.Errorf("%s means something between a client and perdure only, and cannot be forwarded", key)
	}
	return nil
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}
