package starlark

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A Dict is the dict of programs. It replaces starlark.Dict, which cannot charge an
// account, and whose hash of numbers and short words is fixed, so that a few thousand
// chosen keys make each access visit all of them.
type Dict struct {
	account *Account
	entries []entry
	index   map[any]int // of entries, by hashable; nil while there are few
	holes   int         // entries that were deleted
	iters   int         // iterators that are active
	frozen  bool
}

type entry struct {
	key, value starlark.Value // nil key = deleted
	hash       any
}

// fewEntries is up to how many entries a dict is searched linearly.
const fewEntries = 8

var (
	_ starlark.IterableMapping = (*Dict)(nil)
	_ starlark.HasSetKey       = (*Dict)(nil)
	_ starlark.HasAttrs        = (*Dict)(nil)
	_ starlark.Sequence        = (*Dict)(nil)
	_ starlark.Comparable      = (*Dict)(nil)
	_ starlark.Container       = (*Dict)(nil)
)

// NewDict gives an empty dict that charges the account.
func NewDict(a *Account) *Dict { return &Dict{account: a} }

func (d *Dict) Type() string          { return "dict" }
func (d *Dict) Truth() starlark.Bool  { return d.Len() > 0 }
func (d *Dict) Len() int              { return len(d.entries) - d.holes }
func (d *Dict) Hash() (uint32, error) { return 0, errors.New("unhashable type: dict") }

// String is used in messages of the interpreter only.
func (d *Dict) String() string { return Show(d) }

func (d *Dict) Freeze() {
	if d.frozen {
		return
	}
	d.frozen = true
	for _, e := range d.entries {
		if e.key != nil {
			e.value.Freeze()
		}
	}
}

// The keys of the index. Numbers that are equal have the same one.
type (
	textKey  string
	bigKey   string // decimal
	tupleKey string // an encoding of the elements
)

// hashable gives the key of the index for a value, and its size.
func hashable(v starlark.Value) (any, int, error) {
	switch v := v.(type) {
	case starlark.String:
		return textKey(v), len(v), nil
	case starlark.Int:
		if i, ok := v.Int64(); ok {
			return i, 0, nil
		}
		return bigKey(v.String()), maxIntBits / 8, nil
	case starlark.Float:
		return hashFloat(float64(v))
	case starlark.Bool:
		return bool(v), 0, nil
	case starlark.NoneType:
		return nil, 0, nil
	case starlark.Tuple:
		return hashTuple(v)
	}
	return nil, 0, fmt.Errorf("unhashable type: %s", v.Type())
}

func hashFloat(f float64) (any, int, error) {
	switch {
	case math.IsNaN(f):
		return tupleKey("nan"), 0, nil
	case f == math.Trunc(f) && !math.IsInf(f, 0):
		i, err := starlark.NumberToInt(starlark.Float(f))
		if err != nil {
			return nil, 0, err
		}
		return hashable(i)
	}
	return f, 0, nil
}

// hashTuple encodes the elements of a tuple, which must be small to be a key.
func hashTuple(t starlark.Tuple) (any, int, error) {
	var b strings.Builder
	if err := encodeTuple(&b, t, 0); err != nil {
		return nil, 0, err
	}
	return tupleKey(b.String()), b.Len(), nil
}

const maxTupleKey = 64 << 10 // bytes of its encoding

func encodeTuple(b *strings.Builder, t starlark.Tuple, depth int) error {
	if depth > 10 {
		return errors.New("unhashable: tuples are nested more than 10 deep")
	}
	fmt.Fprintf(b, "(%d", len(t))
	for _, v := range t {
		if inner, ok := v.(starlark.Tuple); ok {
			if err := encodeTuple(b, inner, depth+1); err != nil {
				return err
			}
			continue
		}
		k, size, err := hashable(v)
		switch {
		case err != nil:
			return err
		case b.Len()+size > maxTupleKey:
			return fmt.Errorf("unhashable: a tuple of more than %d bytes", maxTupleKey)
		}
		fmt.Fprintf(b, ",%T:%d:%v", k, size, k)
	}
	b.WriteByte(')')
	return nil
}

// find gives the index of a key's entry, or -1.
func (d *Dict) find(k any) int {
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if d.entries[i].key != nil && d.entries[i].hash == k {
			return i
		}
	}
	return -1
}

// lookup charges and finds.
func (d *Dict) lookup(key starlark.Value) (k any, i int, err error) {
	k, size, err := hashable(key)
	if err != nil {
		return nil, -1, err
	}
	work := size / stepWork
	if _, ok := k.(tupleKey); ok { // it was encoded
		work = size / 4
	}
	if work > 0 {
		if err := d.account.Spend(work, 0); err != nil {
			return nil, -1, err
		}
	}
	return k, d.find(k), nil
}

// Lookup gives the value of a key, or nil.
func (d *Dict) Lookup(key starlark.Value) (starlark.Value, error) {
	_, i, err := d.lookup(key)
	if err != nil || i < 0 {
		return nil, err
	}
	return d.entries[i].value, nil
}

// Get implements d[key], which fails where there is none.
func (d *Dict) Get(key starlark.Value) (starlark.Value, bool, error) {
	v, err := d.Lookup(key)
	switch {
	case err != nil:
		return nil, false, err
	case v == nil:
		return nil, false, fmt.Errorf("key %s not in dict%s", Show(key), d.near(key))
	}
	return v, true, nil
}

// maxNamed is how many keys or fields an error names at most.
const maxNamed = 12

// near names the keys of a small dict.
func (d *Dict) near(starlark.Value) string {
	if d.Len() == 0 || d.Len() > maxNamed {
		return ""
	}
	var names []string
	for _, e := range d.entries {
		if e.key != nil {
			names = append(names, Show(e.key))
		}
	}
	if text := strings.Join(names, ", "); len(text) <= maxTextShow {
		return ", which has " + text
	}
	return ""
}

func (d *Dict) Has(key starlark.Value) (bool, error) {
	_, i, err := d.lookup(key)
	return i >= 0, err
}

// checkMutable says why d cannot change.
func (d *Dict) checkMutable(verb string) error {
	switch {
	case d.frozen:
		return fmt.Errorf("cannot %s frozen dict%s", verb, frozenHint)
	case d.iters > 0:
		return fmt.Errorf("cannot %s dict during iteration", verb)
	}
	return nil
}

// frozenHint says what to do about a value that cannot change.
const frozenHint = ": results of tools and data never change, nor does what parallel branches see; copy it with dict(…) or list(…)"

// SetKey implements d[key] = value.
func (d *Dict) SetKey(key, value starlark.Value) error {
	if err := d.checkMutable("insert into"); err != nil {
		return err
	}
	k, i, err := d.lookup(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.entries[i].value = value
		return nil
	}
	if err := d.account.Spend(1, entryBytes); err != nil {
		return err
	}
	d.insert(entry{key: key, value: value, hash: k})
	return nil
}

func (d *Dict) insert(e entry) {
	d.entries = append(d.entries, e)
	switch {
	case d.index != nil:
		d.index[e.hash] = len(d.entries) - 1
	case len(d.entries) > fewEntries:
		d.reindex()
	}
}

func (d *Dict) reindex() {
	d.index = make(map[any]int, 2*len(d.entries))
	for i, e := range d.entries {
		d.index[e.hash] = i
	}
}

// remove deletes an entry by its index and gives its value.
func (d *Dict) remove(i int) starlark.Value {
	value := d.entries[i].value
	delete(d.index, d.entries[i].hash)
	d.entries[i] = entry{}
	d.holes++
	if d.holes > fewEntries && d.holes > len(d.entries)/2 {
		d.compact()
	}
	return value
}

func (d *Dict) compact() {
	var kept []entry
	for _, e := range d.entries {
		if e.key != nil {
			kept = append(kept, e)
		}
	}
	d.entries, d.holes, d.index = kept, 0, nil
	if len(kept) > fewEntries {
		d.reindex()
	}
}

// Each visits the entries in the order of insertion, up to the first error.
func (d *Dict) Each(visit func(key, value starlark.Value) error) error {
	for _, e := range d.entries {
		if e.key == nil {
			continue
		}
		if err := visit(e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

// Items implements f(**d); $starstar has charged it.
func (d *Dict) Items() []starlark.Tuple {
	items := make([]starlark.Tuple, 0, d.Len())
	for _, e := range d.entries {
		if e.key != nil {
			items = append(items, starlark.Tuple{e.key, e.value})
		}
	}
	return items
}

func (d *Dict) Iterate() starlark.Iterator {
	d.iters++
	return &dictIterator{dict: d}
}

type dictIterator struct {
	dict *Dict
	next int
}

func (it *dictIterator) Next(p *starlark.Value) bool {
	for it.next < len(it.dict.entries) {
		e := it.dict.entries[it.next]
		it.next++
		if e.key != nil {
			*p = e.key
			return true
		}
	}
	return false
}

func (it *dictIterator) Done() { it.dict.iters-- }

// CompareSameType compares dicts if compare has not.
func (d *Dict) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	return compareDepth(d.account, op, d, y, depth)
}

// Copy gives a new dict with the entries of d.
func (d *Dict) Copy() (*Dict, error) {
	c := NewDict(d.account)
	return c, c.Update(d)
}

// Update takes the entries of a mapping, or the pairs of an iterable.
func (d *Dict) Update(from starlark.Value) error {
	if m, ok := from.(*Dict); ok {
		return m.Each(d.SetKey)
	}
	if m, ok := from.(starlark.IterableMapping); ok {
		for _, item := range m.Items() {
			if err := d.SetKey(item[0], item[1]); err != nil {
				return err
			}
		}
		return nil
	}
	iter := starlark.Iterate(from)
	if iter == nil {
		return fmt.Errorf("got %s, want a dict or an iterable of pairs", from.Type())
	}
	defer iter.Done()
	var pair starlark.Value
	for i := 0; iter.Next(&pair); i++ {
		key, value, err := pairOf(pair)
		if err != nil {
			return fmt.Errorf("at index %d: %w", i, err)
		}
		if err := d.SetKey(key, value); err != nil {
			return err
		}
	}
	return d.account.failure()
}

func pairOf(v starlark.Value) (key, value starlark.Value, err error) {
	seq, ok := v.(starlark.Indexable)
	if _, text := v.(starlark.String); !ok || text || seq.Len() != 2 {
		return nil, nil, fmt.Errorf("got %s, want a pair", v.Type())
	}
	return seq.Index(0), seq.Index(1), nil
}
