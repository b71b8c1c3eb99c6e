package starlark

// Limits bound what a program may use. A field that is zero has its default. A
// value above the default is taken as it is: callers that take limits from outside
// should only lower them.
type Limits struct {
	Steps   int // of the interpreter, of all threads together; an operation on something large takes several. Default 5,000,000
	Memory  int // bytes that the program allocates in all, released or not. Default 128 MiB
	Value   int // bytes of JSON of a value that comes in or goes out. Default 1,900 KiB
	Source  int // bytes of the program and of what it loads, together. Default 256 KiB
	Nesting int // of the source, and of values that come in or go out. Default 100
	Depth   int // of calls of functions. Default 200
}

// WithDefaults gives l with every field set.
func (l Limits) WithDefaults() Limits {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.Steps, 5_000_000)
	set(&l.Memory, 128<<20)
	set(&l.Value, 1900<<10)
	set(&l.Source, 256<<10)
	set(&l.Nesting, 100)
	set(&l.Depth, 200)
	return l
}

const (
	stepBytes   = 16  // that the interpreter may allocate in one step of its own
	boxBytes    = 24  // of a value that is no pointer
	elemBytes   = 16  // of an element of a list
	entryBytes  = 100 // of an entry of a dict
	stepWork    = 64  // bytes that are read or written in the time of a step
	maxIntBits  = 512 // of an integer
	maxTextShow = 200 // bytes of a value in a message

	// maxAtOnce is how much one operation may allocate, since no other thread has
	// a turn until it has ended.
	maxAtOnce = 16 << 20
)
