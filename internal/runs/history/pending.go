package history

// pending are things that one event of an execution begins and another one ends.
// A reset copies events with their numbers: so what was begun before it is the
// same thing afterwards.
type pending[T any] struct {
	underWay map[int64]*T // by the event that began them
	all      map[int64]*T // of this execution, also those that have ended
	before   map[int64]*T // of the execution that was reset
}

func newPending[T any]() pending[T] {
	return pending[T]{underWay: map[int64]*T{}, all: map[int64]*T{}}
}

// next goes on with the next execution.
func (p *pending[T]) next(reset bool) {
	before := p.all
	*p = newPending[T]()
	if reset {
		p.before = before
	}
}

func (p *pending[T]) begin(event int64, t *T) { p.underWay[event], p.all[event] = t, t }

// again begins what the event has begun before the reset; nil = nothing.
func (p *pending[T]) again(event int64) *T {
	t := p.before[event]
	if t != nil {
		p.begin(event, t)
	}
	return t
}

// end returns what the event began; nil = it has ended, or was not ours.
func (p *pending[T]) end(event int64) *T {
	t := p.underWay[event]
	delete(p.underWay, event)
	return t
}
