package starlark

import (
	"errors"
	"fmt"
	"math"
	"time"

	starlarkmath "go.starlark.net/lib/math"
	starlarktime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// mathModule has the functions with the same result on every processor, to the last
// digit: a run may continue on another one. The other functions of Starlark's module
// (exp, log, sin, …) are series whose terms processors add differently.
func mathModule() *starlarkstruct.Module {
	members := starlark.StringDict{"pow": starlark.NewBuiltin("math.pow", power)}
	for _, name := range []string{"ceil", "copysign", "degrees", "e", "fabs", "floor", "mod", "pi", "radians", "remainder", "round", "sqrt"} {
		members[name] = starlarkmath.Module.Members[name]
	}
	return &starlarkstruct.Module{Name: "math", Members: members}
}

// power is x to the power of an integer, or of a half.
func power(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var base, exponent starlark.Value
	if err := starlark.UnpackPositionalArgs("math.pow", args, kwargs, 2, &base, &exponent); err != nil {
		return nil, err
	}
	x, isNumber := starlark.AsFloat(base)
	y, isExponent := starlark.AsFloat(exponent)
	switch {
	case !isNumber || !isExponent:
		return nil, fmt.Errorf("math.pow: want numbers, got %s and %s", base.Type(), exponent.Type())
	case y != math.Trunc(y) && math.Abs(y) != 0.5:
		return nil, fmt.Errorf("math.pow: the exponent is %s; want an integer: other powers differ from one processor to the next", Show(exponent))
	}
	return starlark.Float(math.Pow(x, y)), nil
}

// timeModule is Starlark's without zones and without now: a script must do the same on
// every machine, whatever its zone and zone data.
func timeModule() *starlarkstruct.Module {
	members := starlark.StringDict{
		"from_timestamp": inUTC("from_timestamp"),
		"parse_time":     starlark.NewBuiltin("time.parse_time", parseTime),
		"time":           inUTC("time"),
	}
	for _, name := range []string{"parse_duration", "nanosecond", "microsecond", "millisecond", "second", "minute", "hour"} {
		members[name] = starlarktime.Module.Members[name]
	}
	return &starlarkstruct.Module{Name: "time", Members: members}
}

var errNoZones = errors.New("there are no time zones but UTC: a script must do the same on every machine")

// inUTC is a function of the time module that makes times in UTC.
func inUTC(name string) *starlark.Builtin {
	member := starlarktime.Module.Members[name].(*starlark.Builtin)
	return starlark.NewBuiltin("time."+name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if hasLocation(args, 7, kwargs) {
			return nil, errNoZones
		}
		if err := AccountOf(thread).Spend(4, 8*elemBytes); err != nil {
			return nil, err
		}
		v, err := member.CallInternal(thread, args, kwargs)
		if t, ok := v.(starlarktime.Time); ok {
			v = starlarktime.Time(time.Time(t).UTC())
		}
		return v, err
	})
}

// hasLocation reports whether arguments have a location, after others other ones.
func hasLocation(args starlark.Tuple, others int, kwargs []starlark.Tuple) bool {
	found := len(args) > others
	for _, kv := range kwargs {
		found = found || kv[0] == starlark.String("location")
	}
	return found
}

// maxTimeText bounds the text of a time, and its format.
const maxTimeText = 1000

// parseTime reads a time. It ignores abbreviations of zones, whose meaning depends on the
// machine.
func parseTime(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if hasLocation(args, 2, kwargs) {
		return nil, errNoZones
	}
	text, format := "", time.RFC3339
	if err := starlark.UnpackArgs("time.parse_time", args, kwargs, "x", &text, "format?", &format); err != nil {
		return nil, err
	}
	if len(text)+len(format) > maxTimeText {
		return nil, fmt.Errorf("the text of a time has at most %d bytes", maxTimeText)
	}
	if err := AccountOf(thread).Spend(4, 8*elemBytes); err != nil {
		return nil, err
	}
	t, err := time.ParseInLocation(format, text, time.UTC)
	if err != nil {
		return nil, fmt.Errorf("time.parse_time: %w", err)
	}
	return starlarktime.Time(t.UTC()), nil
}
