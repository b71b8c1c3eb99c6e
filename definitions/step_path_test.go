package definitions

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the methods of a StepPath say of each way to write one.
func TestStepPath(t *testing.T) {
	t.Parallel()
	of := func(p StepPath) string {
		return fmt.Sprintf("top %s, site %s, around %q, undoes %q, call %t, probe %t",
			p.Top(), p.Site(), p.Around(), p.Undoes(), p.IsScriptCall(), p.IsProbe())
	}
	for p, want := range map[StepPath]string{
		"deploy":                           `top deploy, site deploy, around "", undoes "", call false, probe false`,
		StepPath("each").Item(2):           `top each, site each[2], around "", undoes "", call false, probe false`,
		"each[2]/inner[0]":                 `top each, site each[2]/inner[0], around "each[2]/", undoes "", call false, probe false`,
		"script/main:12":                   `top script, site script/main:12, around "script/", undoes "", call true, probe false`,
		"script/main:12#2":                 `top script, site script/main:12, around "script/", undoes "", call true, probe false`,
		"a/b/compensate#2":                 `top a, site a/b/compensate, around "a/b/", undoes "a/b", call false, probe false`,
		StepPath("save").Probe(1):          `top save, site save/probe, around "save/", undoes "", call false, probe true`,
		ReferencePath("deploy@1"):          `top @deploy@1, site @deploy@1, around "", undoes "", call false, probe false`,
		StepPath("compensate").Attempt(2):  `top compensate#2, site compensate, around "", undoes "", call false, probe false`,
		StepPath("x").Compensation():       `top x, site x/compensate, around "x/", undoes "", call false, probe false`,
		StepPath("x").Below("y").Redone(1): `top x, site x/y~1, around "x/", undoes "", call false, probe false`,
	} {
		if diff := cmp.Diff(want, of(p)); diff != "" {
			t.Errorf("%s: %s", p, diff)
		}
	}
}

// Where a path lies in relation to another.
func TestStepPathWithin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p, other    StepPath
		covers, has bool
	}{
		{"a", "a", true, true},
		{"a", "a/b", true, true},
		{"a", "a[1]", false, true},
		{"a", "ab", false, false},
		{"a", "a/compensate#1", true, false},
		{"a/b", "a", false, false},
		{"each[1]", "each[1]/x[0]", true, true},
		{"each[1]", "each[11]", false, false},
	} {
		if covers, has := c.p.Covers(c.other), c.p.Has(c.other); covers != c.covers || has != c.has {
			t.Errorf("%s covers %s: %t, has it: %t; want %t, %t", c.p, c.other, covers, has, c.covers, c.has)
		}
	}
	if rest, ok := StepPath("a[1]/b/c").From("a[1]"); rest != "b/c" || !ok {
		t.Errorf("b/c is %s, %t", rest, ok)
	}
	for id, want := range map[string]int{"ask#3": 3, "ask": 0, "other#3": 0, "ask#x": 0, "ask[1]#2": 0} {
		if got := StepPath("ask").Occurrence(id); got != want {
			t.Errorf("ask has asked %s for the time %d, want %d", id, got, want)
		}
	}
}

// A path is written below another one, and taken back.
func TestStepPathBelow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ above, rest, want StepPath }{
		{"a", "b", "a/b"}, {"", "b", "b"}, {"a", "", "a"}, {"a[1]", "b/c", "a[1]/b/c"},
	} {
		if got := c.above.Below(c.rest); got != c.want {
			t.Errorf("%q below %q is %q, want %q", c.rest, c.above, got, c.want)
		}
	}
	for p, want := range map[StepPath]StepPath{"a/b/probe": "a/b", "a/probe#2": "a", "a": "a"} {
		if got := p.Before("probe"); got != want {
			t.Errorf("before the probe of %s is %s, want %s", p, got, want)
		}
	}
}
