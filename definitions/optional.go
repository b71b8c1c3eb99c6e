package definitions

import (
	"reflect"

	"github.com/perdure/perdure/definitions/template"
)

// An Optional is any JSON value that an author may leave out. A null that is
// written is a value.
type Optional struct {
	Value any // as DecodeValue gives it
	Given bool
}

var optionalType = reflect.TypeFor[Optional]()

// Give is a value that is given.
func Give(value any) Optional { return Optional{Value: value, Given: true} }

// MarshalJSON gives the value.
func (o Optional) MarshalJSON() ([]byte, error) { return template.EncodeValue(o.Value) }

// UnmarshalJSON takes any JSON value.
func (o *Optional) UnmarshalJSON(data []byte) error {
	value, err := template.DecodeValue(data)
	*o = Give(value)
	return err
}
