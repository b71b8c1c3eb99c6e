// Package record is what a run keeps of what it did, for the execution that continues
// it and for one that repeats it: an entry for each step path, each of one kind.
//
// The kinds are a closed set (see Kind), each with its own fields. What survives of an
// entry when another execution begins with it is decided in one place, Entry.Carry. A
// Journal is the record of one execution, and of those before it.
//
// The package is pure: it knows neither Temporal nor a clock.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/definitions"
)

// A StepPath reports where in a run something is executed.
type StepPath = definitions.StepPath

// DigestOf is the digest of a call's canonical arguments.
func DigestOf(data json.RawMessage) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// An Entry is what is recorded at one step path.
type Entry struct {
	Order int  // in which entries were recorded, from 1; 0 = it has no place among them
	Exact bool // it counts for the same digest only, also when the run continues
	Kind  Kind // nil of the zero Entry alone
}

// A Kind is what an entry is of: one of Call, Child, Given, Gate, Wait, Span, Value, End,
// Branches, Deadline, Report, Reference. There are no others.
type Kind interface {
	name() string
	// bytes is what the kind takes in the input of an execution, but for entryBytes.
	bytes() int
	// digest is of what the kind was made from; "" = it has none.
	digest() string
	// done reports whether there is a result to use instead of executing it again.
	done() bool
	// failure reports why it failed; nil = it has not.
	failure() *Error
	// carry is what survives of an entry of the kind.
	carry(e Entry, t Terms) (Entry, bool)
}

// EntryBytes is more than what is not counted of an entry takes in JSON: the names of its
// fields, and those of its error.
const EntryBytes = 512

// Bytes is what the entry takes at a path in the input of an execution, about.
func (e Entry) Bytes(path StepPath) int {
	n := len(path) + EntryBytes
	if e.Kind != nil {
		n += e.Kind.bytes()
	}
	return n
}

// Digest is that of what the entry was made from; "" = it has none.
func (e Entry) Digest() string {
	if e.Kind == nil {
		return ""
	}
	return e.Kind.digest()
}

// Done reports whether there is a result to use instead of executing it again.
func (e Entry) Done() bool { return e.Kind != nil && e.Kind.done() }

// Failure is why what the entry is of failed; nil = it has not.
func (e Entry) Failure() *Error {
	if e.Kind == nil {
		return nil
	}
	return e.Kind.failure()
}

// Output is that of a call or of a called run; nil = there is none.
func (e Entry) Output() json.RawMessage {
	switch k := e.Kind.(type) {
	case Call:
		return k.Output
	case Child:
		return k.Output
	case Given:
		return k.Output
	}
	return nil
}

// Undo is the call that undoes what a script has called; nil = none does.
func (e Entry) Undo() *Undo {
	switch k := e.Kind.(type) {
	case Call:
		return k.Undo
	case Child:
		return k.Undo
	}
	return nil
}

// ResultBytes is how many bytes the result has that Emptied omits.
func (e Entry) ResultBytes() int {
	if k, ok := e.Kind.(Value); ok {
		return len(k.Result)
	}
	return len(e.Output())
}

// Emptied is the entry with {} in the place of a result that is not needed.
func (e Entry) Emptied() Entry {
	if !e.Done() {
		return e
	}
	empty := json.RawMessage("{}")
	switch k := e.Kind.(type) {
	case Call:
		k.Output = empty
		e.Kind = k
	case Child:
		k.Output = empty
		e.Kind = k
	case Given:
		k.Output = empty
		e.Kind = k
	case Value:
		k.Result = empty
		e.Kind = k
	}
	return e
}

// kindOf decodes an entry as the kind of a name.
var kindOf = map[string]func(data []byte) (Kind, error){
	Call{}.name():      decode[Call],
	Child{}.name():     decode[Child],
	Given{}.name():     decode[Given],
	Gate{}.name():      decode[Gate],
	Wait{}.name():      decode[Wait],
	Span{}.name():      decode[Span],
	Value{}.name():     decode[Value],
	End{}.name():       decode[End],
	Branches{}.name():  decode[Branches],
	Deadline{}.name():  decode[Deadline],
	Report{}.name():    decode[Report],
	Reference{}.name(): decode[Reference],
}

func decode[K Kind](data []byte) (Kind, error) {
	var k K
	err := json.Unmarshal(data, &k)
	return k, err
}

// header is what all entries have in JSON, beside the fields of their kind.
type header struct {
	Kind  string `json:"kind"`
	Order int    `json:"order,omitempty"`
	Exact bool   `json:"exact,omitempty"`
}

// MarshalJSON writes an object with the name of the kind and its fields.
func (e Entry) MarshalJSON() ([]byte, error) {
	if e.Kind == nil {
		return nil, fmt.Errorf("an entry of a record has no kind")
	}
	head, err := json.Marshal(header{e.Kind.name(), e.Order, e.Exact})
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(e.Kind)
	if err != nil || string(fields) == "{}" {
		return head, err
	}
	return append(append(head[:len(head)-1], ','), fields[1:]...), nil
}

// UnmarshalJSON refuses a kind that it does not know.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var head header
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	decode, known := kindOf[head.Kind]
	if !known {
		return &UnknownKindError{head.Kind}
	}
	kind, err := decode(data)
	*e = Entry{Order: head.Order, Exact: head.Exact, Kind: kind}
	return err
}

// An UnknownKindError reports that an entry is of a kind of another build.
type UnknownKindError struct{ Kind string }

func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("an entry of a record has the unknown kind %q", e.Kind)
}

// PayloadSize is how many bytes text, or JSON without white space, takes in a
// payload, where what means something in HTML is escaped.
func PayloadSize[T ~string | ~[]byte](text T) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '<' || c == '>' || c == '&' || c < 0x20:
			n += 5
		case c == 0xE2 && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xA8: // U+2028, U+2029
			n += 3
		}
	}
	return n
}
