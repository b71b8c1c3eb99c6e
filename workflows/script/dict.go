package script

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A dict is the dict of scripts. It takes the place of starlark.Dict, whose
// hash of numbers and short words is fixed, so that a few thousand chosen keys
// make each access walk through all of them, and which cannot charge what it
// takes.
type dict struct {
	account *account
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

// fewEntries is up to how many a dict is searched from end to end.
const fewEntries = 8

var (
	_ starlark.IterableMapping = (*dict)(nil)
	_ starlark.HasSetKey       = (*dict)(nil)
	_ starlark.HasAttrs        = (*dict)(nil)
	_ starlark.Sequence        = (*dict)(nil)
	_ starlark.Comparable      = (*dict)(nil)
	_ starlark.Container       = (*dict)(nil)
)

func newDict(a *account) *dict { return &dict{account: a} }

func (d *dict) Type() string          { return "dict" }
func (d *dict) Truth() starlark.Bool  { return d.Len() > 0 }
func (d *dict) Len() int              { return len(d.entries) - d.holes }
func (d *dict) Hash() (uint32, error) { return 0, errors.New("unhashable type: dict") }

// String is used in messages of the interpreter only.
func (d *dict) String() string { return shown(d) }

func (d *dict) Freeze() {
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

// hashTuple encodes the elements, of which a tuple that is used as a key may
// not have many.
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
func (d *dict) find(k any) int {
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
func (d *dict) lookup(key starlark.Value) (k any, i int, err error) {
	k, size, err := hashable(key)
	if err != nil {
		return nil, -1, err
	}
	work := size / stepWork
	if _, ok := k.(tupleKey); ok { // it was encoded
		work = size / 4
	}
	if work > 0 {
		if err := d.account.spend(work, 0); err != nil {
			return nil, -1, err
		}
	}
	return k, d.find(k), nil
}

// get gives the value of a key, or nil.
func (d *dict) get(key starlark.Value) (starlark.Value, error) {
	_, i, err := d.lookup(key)
	if err != nil || i < 0 {
		return nil, err
	}
	return d.entries[i].value, nil
}

// Get implements d[key], which fails where there is none.
func (d *dict) Get(key starlark.Value) (starlark.Value, bool, error) {
	v, err := d.get(key)
	switch {
	case err != nil:
		return nil, false, err
	case v == nil:
		return nil, false, fmt.Errorf("key %s not in dict%s", shown(key), d.near(key))
	}
	return v, true, nil
}

// near names the keys of a small dict.
func (d *dict) near(starlark.Value) string {
	if d.Len() == 0 || d.Len() > 12 {
		return ""
	}
	var names []string
	for _, e := range d.entries {
		if e.key != nil {
			names = append(names, shown(e.key))
		}
	}
	if text := strings.Join(names, ", "); len(text) <= maxTextShow {
		return ", which has " + text
	}
	return ""
}

func (d *dict) Has(key starlark.Value) (bool, error) {
	_, i, err := d.lookup(key)
	return i >= 0, err
}

// checkMutable says why d cannot change.
func (d *dict) checkMutable(verb string) error {
	switch {
	case d.frozen:
		return fmt.Errorf("cannot %s frozen dict%s", verb, frozenHint)
	case d.iters > 0:
		return fmt.Errorf("cannot %s dict during iteration", verb)
	}
	return nil
}

// frozenHint says what to do about something that cannot change.
const frozenHint = ": results of tools and data never change, nor does what parallel branches see; copy it with dict(…) or list(…)"

// SetKey implements d[key] = value.
func (d *dict) SetKey(key, value starlark.Value) error {
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
	if err := d.account.spend(1, entryBytes); err != nil {
		return err
	}
	d.insert(entry{key: key, value: value, hash: k})
	return nil
}

func (d *dict) insert(e entry) {
	d.entries = append(d.entries, e)
	switch {
	case d.index != nil:
		d.index[e.hash] = len(d.entries) - 1
	case len(d.entries) > fewEntries:
		d.reindex()
	}
}

func (d *dict) reindex() {
	d.index = make(map[any]int, 2*len(d.entries))
	for i, e := range d.entries {
		d.index[e.hash] = i
	}
}

// remove deletes an entry by its index and gives its value.
func (d *dict) remove(i int) starlark.Value {
	value := d.entries[i].value
	delete(d.index, d.entries[i].hash)
	d.entries[i] = entry{}
	d.holes++
	if d.holes > fewEntries && d.holes > len(d.entries)/2 {
		d.compact()
	}
	return value
}

func (d *dict) compact() {
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

// each visits the entries in the order of insertion.
func (d *dict) each(visit func(key, value starlark.Value) error) error {
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
func (d *dict) Items() []starlark.Tuple {
	items := make([]starlark.Tuple, 0, d.Len())
	for _, e := range d.entries {
		if e.key != nil {
			items = append(items, starlark.Tuple{e.key, e.value})
		}
	}
	return items
}

func (d *dict) Iterate() starlark.Iterator {
	d.iters++
	return &dictIterator{dict: d}
}

type dictIterator struct {
	dict *dict
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

// CompareSameType compares dicts where nothing else has done it: see compare.
func (d *dict) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	return compareDepth(d.account, op, d, y, depth)
}

func (d *dict) Attr(name string) (starlark.Value, error) {
	if b := dictMethods[name]; b != nil {
		return b.BindReceiver(d), nil
	}
	return nil, nil
}

func (d *dict) AttrNames() []string {
	return []string{"clear", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"}
}

// copyOf gives a new dict with the entries of d.
func (d *dict) copyOf() (*dict, error) {
	c := newDict(d.account)
	return c, c.update(d)
}

// update takes the entries of a mapping, or the pairs of an iterable.
func (d *dict) update(from starlark.Value) error {
	if m, ok := from.(*dict); ok {
		return m.each(d.SetKey)
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

var dictMethods = map[string]*starlark.Builtin{
	"clear":      starlark.NewBuiltin("clear", dictClear),
	"get":        starlark.NewBuiltin("get", dictGet),
	"items":      starlark.NewBuiltin("items", dictItems),
	"keys":       starlark.NewBuiltin("keys", dictKeys),
	"pop":        starlark.NewBuiltin("pop", dictPop),
	"popitem":    starlark.NewBuiltin("popitem", dictPopItem),
	"setdefault": starlark.NewBuiltin("setdefault", dictSetDefault),
	"update":     starlark.NewBuiltin("update", dictUpdate),
	"values":     starlark.NewBuiltin("values", dictValues),
}

func dictClear(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*dict)
	if err := starlark.UnpackPositionalArgs("clear", args, kwargs, 0); err != nil {
		return nil, err
	}
	if err := d.checkMutable("clear"); err != nil {
		return nil, err
	}
	d.entries, d.index, d.holes = nil, nil, 0
	return starlark.None, nil
}

func dictGet(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var key starlark.Value
	var otherwise starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs("get", args, kwargs, 1, &key, &otherwise); err != nil {
		return nil, err
	}
	v, err := b.Receiver().(*dict).get(key)
	if v == nil {
		v = otherwise
	}
	return v, err
}

// list makes a list of something of each entry.
func (d *dict) list(what func(e entry) starlark.Value, bytes int) (starlark.Value, error) {
	if err := d.account.spend(d.Len()/4, d.Len()*bytes); err != nil {
		return nil, err
	}
	list := make([]starlark.Value, 0, d.Len())
	for _, e := range d.entries {
		if e.key != nil {
			list = append(list, what(e))
		}
	}
	return starlark.NewList(list), nil
}

func dictItems(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs("items", args, kwargs, 0); err != nil {
		return nil, err
	}
	return b.Receiver().(*dict).list(func(e entry) starlark.Value { return starlark.Tuple{e.key, e.value} }, 3*elemBytes+boxBytes)
}

func dictKeys(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs("keys", args, kwargs, 0); err != nil {
		return nil, err
	}
	return b.Receiver().(*dict).list(func(e entry) starlark.Value { return e.key }, elemBytes)
}

func dictValues(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackPositionalArgs("values", args, kwargs, 0); err != nil {
		return nil, err
	}
	return b.Receiver().(*dict).list(func(e entry) starlark.Value { return e.value }, elemBytes)
}

func dictPop(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*dict)
	var key, otherwise starlark.Value
	if err := starlark.UnpackPositionalArgs("pop", args, kwargs, 1, &key, &otherwise); err != nil {
		return nil, err
	}
	if err := d.checkMutable("pop from"); err != nil {
		return nil, err
	}
	_, i, err := d.lookup(key)
	switch {
	case err != nil:
		return nil, err
	case i >= 0:
		return d.remove(i), nil
	case otherwise != nil:
		return otherwise, nil
	}
	return nil, fmt.Errorf("pop: key %s not in dict", shown(key))
}

// dictPopItem removes the first entry.
func dictPopItem(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*dict)
	if err := starlark.UnpackPositionalArgs("popitem", args, kwargs, 0); err != nil {
		return nil, err
	}
	if err := d.checkMutable("popitem from"); err != nil {
		return nil, err
	}
	for i, e := range d.entries {
		if e.key == nil {
			continue
		}
		// Entries that were deleted before it are passed each time.
		if err := d.account.spend(1+i/16, 2*elemBytes+boxBytes); err != nil {
			return nil, err
		}
		d.remove(i)
		return starlark.Tuple{e.key, e.value}, nil
	}
	return nil, errors.New("popitem: empty dict")
}

func dictSetDefault(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := b.Receiver().(*dict)
	var key starlark.Value
	var otherwise starlark.Value = starlark.None
	if err := starlark.UnpackPositionalArgs("setdefault", args, kwargs, 1, &key, &otherwise); err != nil {
		return nil, err
	}
	if v, err := d.get(key); v != nil || err != nil {
		return v, err
	}
	return otherwise, d.SetKey(key, otherwise)
}

func dictUpdate(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.None, b.Receiver().(*dict).fill(thread, "update", args, kwargs)
}

// fill takes what dict(…) and update(…) are called with.
func (d *dict) fill(thread *starlark.Thread, name string, args starlark.Tuple, kwargs []starlark.Tuple) error {
	if len(args) > 1 {
		return fmt.Errorf("%s: got %d arguments, want at most 1", name, len(args))
	}
	if len(args) == 1 {
		from, err := iterable(thread, args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := d.update(from); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, kv := range kwargs {
		if err := d.SetKey(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}
