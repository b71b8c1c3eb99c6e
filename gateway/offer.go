package gateway

import (
	"cmp"

	"github.com/perdure/perdure/internal/registry"
)

// An Offer is a composite tool as clients are to see it.
type Offer struct {
	registry.Entry
	As string // the tool's name; "" = the definition's
	// Missing reports why the tool does not exist; Definition then has the wanted name
	// and version. "" = it exists.
	Missing string
}

// name is the tool's name on a server that puts a prefix before names.
func (o Offer) name(prefix string) string {
	return cmp.Or(o.As, o.Definition.Expose.Name(prefix, o.Definition.Name))
}

// description is what clients, and the models behind them, read of the tool.
func (o Offer) description() string {
	if why := o.Deprecated(); why != "" {
		return o.Definition.Description + "\n\nDeprecated: " + why
	}
	return o.Definition.Description
}
