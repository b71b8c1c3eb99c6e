package gateway

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/perdure/perdure/internal/runs"
	"github.com/perdure/perdure/internal/web"
)

// Results of runs are resources, if Options.LinkOver asks for it.
const (
	resultScheme   = "perdure://runs/"
	resultSuffix   = "/result"
	resultTemplate = resultScheme + "{id}" + resultSuffix
)

// linksSince is the first version whose clients take links in results.
const linksSince = "2025-06-18"

const linkType = "resource_link"

type resourceLink struct {
	Type     string `json:"type"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	MIMEType string `json:"mimeType"`
	Size     int    `json:"size"`
}

// MarshalJSON writes a text, or a link.
func (b textBlock) MarshalJSON() ([]byte, error) {
	if b.Type == linkType {
		return json.Marshal(b.link)
	}
	type plain textBlock
	return encode(plain(b))
}

func noResource(c *client) *rpcError {
	return &rpcError{Code: c.dialect.noResource(), Message: errNoResource.Error()}
}

// resultRun is the run whose result a URI names.
func resultRun(uri string) (runs.RunID, bool) {
	escaped, found := strings.CutPrefix(uri, resultScheme)
	escaped, whole := strings.CutSuffix(escaped, resultSuffix)
	id, err := url.PathUnescape(escaped)
	return runs.RunID(id), found && whole && err == nil
}

var errNoResource = errors.New("result not found")

func unread(err error) error {
	if errors.Is(err, runs.ErrNotFound) {
		return errNoResource
	}
	if full := (*web.FullError)(nil); errors.As(err, &full) {
		return full
	}
	return errors.New("cannot read the result at the moment; try again")
}
