package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

var (
	durationType = reflect.TypeFor[definitions.Duration]()
	packagePath  = reflect.TypeFor[configuration]().PkgPath()
)

// check holds a value against the tags of its type, with all that is below it.
// What takes more than one key to see is for the reader.
func (r *reader) check(p keyPath, v reflect.Value) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		if !isMapping(v.Type()) {
			return
		}
		for _, key := range definitions.Keys(v.Type()) {
			at, value := p.to(key.Name), v.FieldByIndex(key.Index)
			r.checkKey(at, key.Tag, value)
			r.check(at, value)
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.check(p.to(i), v.Index(i))
		}
	case reflect.Map:
		for _, name := range v.MapKeys() {
			r.check(p.to(name.String()), v.MapIndex(name))
		}
	}
}

// isMapping says whether a type is a mapping of the configuration: what
// definitions have in common with it is checked as that of a definition.
func isMapping(t reflect.Type) bool { return t.Kind() == reflect.Struct && t.PkgPath() == packagePath }

// checkKey holds the value of one key against its tags.
func (r *reader) checkKey(p keyPath, tag reflect.StructTag, v reflect.Value) {
	if v.IsZero() {
		if what, required := tag.Lookup("required"); required {
			r.missing(p, tag, what)
		}
		return
	}
	if instead, ignored := tag.Lookup("ignored"); ignored {
		r.noEffect(p, instead)
	}
	if words := tag.Get("enum"); words != "" {
		r.oneOf(p, v.String(), strings.Split(words, ","), strings.Split(tag.Get("unsupported"), ","))
	}
	r.between(p, tag, reflect.Indirect(v))
}

func (r *reader) missing(p keyPath, tag reflect.StructTag, what string) {
	if words := tag.Get("enum"); words != "" {
		r.errorf(p, "missing", "is missing; use %s", either(strings.Split(words, ",")))
		return
	}
	r.errorf(p, "missing", "%s", strings.TrimSuffix("is missing: "+what, ": "))
}

func (r *reader) noEffect(p keyPath, instead string) {
	r.warnf(p, "no-effect", "%s", strings.TrimSuffix("has no effect here; "+instead, "; "))
}

// oneOf checks a word. Unsupported are words of ToolHive that mean something, but
// not here.
func (r *reader) oneOf(p keyPath, word string, known, unsupported []string) {
	switch {
	case slices.Contains(known, word):
	case slices.Contains(unsupported, word):
		r.errorf(p, "value", "%q is not supported; use %s", word, either(known))
	default:
		r.errorf(p, "value", "%q is not known%s; use %s", word, nearWord(word, known), either(known))
	}
}

// nearWord says which word may be meant: one with nearly the letters, or one that has
// the word in it, as streamable-http has http.
func nearWord(word string, known []string) string {
	if hint := template.DidYouMean(word, known); hint != "" {
		return hint
	}
	for _, k := range known {
		if word != "" && slices.Contains(strings.FieldsFunc(k, func(r rune) bool { return r == '-' || r == '_' }), strings.ToLower(word)) {
			return fmt.Sprintf(" (did you mean %q?)", k)
		}
	}
	return ""
}

// between checks that a number or a duration is not out of range.
func (r *reader) between(p keyPath, tag reflect.StructTag, v reflect.Value) {
	least, most := tag.Get("min"), tag.Get("max")
	tooLow, tooHigh := least != "" && compare(v, least) < 0, most != "" && compare(v, most) > 0
	if !tooLow && !tooHigh {
		return
	}
	allowed := "at least " + least
	if most != "" {
		allowed = "from " + least + " to " + most
	}
	if standard := tag.Get("default"); standard != "" {
		allowed += "; the default is " + standard
	}
	r.errorf(p, "limit", "is %v; it must be %s", v, allowed)
}

// compare compares a number or duration with one that is written in a tag.
func compare(v reflect.Value, bound string) int {
	var limit int64
	if v.Type() == durationType {
		d, err := time.ParseDuration(bound)
		if err != nil {
			panic(fmt.Sprintf("config: %s in a tag: %v", bound, err))
		}
		limit = int64(d)
	} else {
		n, err := strconv.ParseInt(bound, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("config: %s in a tag: %v", bound, err))
		}
		limit = n
	}
	switch {
	case v.Int() < limit:
		return -1
	case v.Int() > limit:
		return 1
	}
	return 0
}

// either lists words: a, b or c.
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
