package starlark

import "go.starlark.net/starlark"

// A Lock keeps values from changing while several threads can see them: the order in
// which threads continue may differ between executions, and must not matter. It
// replaces the interpreter's Freeze, which cannot be undone and does not end if a
// function refers to itself.
type Lock struct {
	account *Account
	seen    map[any]bool
	held    []func()
	depth   int
}

// NewLock gives a lock that holds nothing.
func NewLock(a *Account) *Lock { return &Lock{account: a, seen: map[any]bool{}} }

// Composite is a value of the host that holds values of the program.
type Composite interface {
	starlark.Value
	Parts() []starlark.Value
}

// maxLockDepth bounds how deeply locked values may be nested.
const maxLockDepth = 10_000

// Release lets the values change again.
func (l *Lock) Release() {
	for _, release := range l.held {
		release()
	}
}

// first reports whether a value is visited for the first time.
func (l *Lock) first(key any) bool {
	if l.seen[key] {
		return false
	}
	l.seen[key] = true
	return true
}

// Hold keeps a value, and all that it refers to, from changing.
func (l *Lock) Hold(v starlark.Value) error {
	if err := l.account.Spend(1, entryBytes); err != nil {
		return err
	}
	if l.depth++; l.depth > maxLockDepth {
		return l.account.Fail("depth", "values that branches see are nested more than %d deep", maxLockDepth)
	}
	defer func() { l.depth-- }()
	switch v := v.(type) {
	case *starlark.List:
		if l.first(v) {
			l.held = append(l.held, v.Iterate().Done)
			return l.sequence(v)
		}
	case starlark.Tuple:
		if len(v) > 0 && l.first(&v[0]) {
			return l.sequence(v)
		}
	case *Dict:
		if l.first(v) && !v.frozen {
			l.held = append(l.held, v.Iterate().Done)
			return v.Each(func(_, value starlark.Value) error { return l.Hold(value) })
		}
	case *Struct:
		if l.first(v) {
			return l.sequence(starlark.Tuple(v.values))
		}
	case *starlark.Function:
		if l.first(v) {
			return l.function(v)
		}
	case *starlark.Builtin:
		if recv := v.Receiver(); recv != nil && l.first(v) {
			return l.Hold(recv)
		}
	case Composite:
		return l.sequence(starlark.Tuple(v.Parts()))
	}
	return nil
}

func (l *Lock) sequence(seq starlark.Indexable) error {
	for i := range seq.Len() {
		if err := l.Hold(seq.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// function locks the values that a function refers to.
func (l *Lock) function(fn *starlark.Function) error {
	for i := range fn.NumFreeVars() {
		if _, v := fn.FreeVar(i); v != nil {
			if err := l.Hold(v); err != nil {
				return err
			}
		}
	}
	for i := range fn.NumParams() {
		if v := fn.ParamDefault(i); v != nil {
			if err := l.Hold(v); err != nil {
				return err
			}
		}
	}
	return nil
}
