package definitions

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParseReference(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Reference{
		"deploy":               {"deploy", ""},
		"deploy@1":             {"deploy", "1"},
		"deploy@ ^1.0":         {"deploy", "^1.0"},
		"deploy@1.2.0":         {"deploy", "1.2.0"},
		"deploy@v1.2.0":        {"deploy", "v1.2.0"},
		"deploy@1.2.0-rc.1":    {"deploy", "1.2.0-rc.1"},
		"a.b-c@>=1.1 <2 || ~3": {"a.b-c", ">=1.1 <2 || ~3"},
	} {
		got, err := ParseReference(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := ParseReference(got.String()); err != nil || again != got {
			t.Errorf("%q written is %q, which is %+v, %v", text, got.String(), again, err)
		}
	}
	for _, text := range []string{"", "@1", "a@", "a b@1", "a@1@2", "a@latest", "a@1.2.3.4", "a@^", "a@" + strings.Repeat("1", 101)} {
		if r, err := ParseReference(text); err == nil {
			t.Errorf("%q is taken for %+v", text, r)
		}
	}
	if _, err := ParseReference("a@1@2"); err == nil || !strings.Contains(err.Error(), "the version is given twice") {
		t.Errorf("of two versions is told %v", err)
	}
}

// A naive reader of versions and constraints, which knows only what the test
// writes.
type naive struct {
	major, minor, patch, rc int // rc 0 = none: it is the release
}

func (v naive) String() string {
	text := fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
	if v.rc > 0 {
		text += fmt.Sprintf("-rc.%d", v.rc)
	}
	return text
}

func (v naive) compare(o naive) int {
	release := func(rc int) int { return cmp.Compare(0, rc) } // -1 for a pre-release
	return cmp.Or(cmp.Compare(v.major, o.major), cmp.Compare(v.minor, o.minor), cmp.Compare(v.patch, o.patch),
		cmp.Compare(release(v.rc), release(o.rc)), cmp.Compare(v.rc, o.rc))
}

// A wish is a constraint with what it means: from low on, below high.
type wish struct {
	text      string
	low, high naive
	pre       bool // takes pre-releases, too
}

// wishes are all that can be wished around a version.
func wishes(v naive) []wish {
	release := naive{v.major, v.minor, v.patch, 0}
	nextMajor, nextMinor := naive{major: v.major + 1}, naive{major: v.major, minor: v.minor + 1}
	caret := nextMajor
	switch {
	case v.major == 0 && v.minor > 0:
		caret = nextMinor
	case v.major == 0:
		caret = naive{patch: v.patch + 1}
	}
	after := naive{v.major, v.minor, v.patch + 1, 1}
	if v.rc > 0 {
		after = naive{v.major, v.minor, v.patch, v.rc + 1}
		return []wish{{v.String(), v, after, true}}
	}
	if v == (naive{}) { // the library takes ~0.0.0 for any version
		nextMinor = naive{major: 1000}
	}
	return []wish{
		{"", naive{}, naive{major: 1000}, false},
		{fmt.Sprint(v.major), naive{major: v.major}, nextMajor, false},
		{fmt.Sprintf("%d.%d", v.major, v.minor), naive{major: v.major, minor: v.minor}, naive{major: v.major, minor: v.minor + 1}, false},
		{release.String(), release, after, false},
		{"v" + release.String(), release, after, false},
		{"^" + release.String(), release, caret, false},
		{"~" + release.String(), release, nextMinor, false},
		{">=" + release.String(), release, naive{major: 1000}, false},
		{fmt.Sprintf(">=%s <%s", release, nextMajor), release, nextMajor, false},
	}
}

func (w wish) of(versions []naive) (string, bool) {
	var best *naive
	for i, v := range versions {
		if v.compare(w.low) >= 0 && v.compare(w.high) < 0 && (w.pre || v.rc == 0) && (best == nil || v.compare(*best) > 0) {
			best = &versions[i]
		}
	}
	if best == nil {
		return "", false
	}
	return best.String(), true
}

// What a reference means among random versions is what a naive search finds.
func TestLatestOfRandomVersions(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	random := func() naive {
		v := naive{r.IntN(3), r.IntN(3), r.IntN(4), 0}
		if r.IntN(4) == 0 {
			v.rc = 1 + r.IntN(12) // two digits: they count as numbers
		}
		return v
	}
	found := 0
	for range 2000 {
		versions := make([]naive, r.IntN(12))
		texts := make([]string, len(versions))
		for i := range versions {
			versions[i] = random()
			texts[i] = versions[i].String()
		}
		for _, w := range wishes(random()) {
			want, wantOK := w.of(versions)
			got, ok := Reference{Name: "a", Version: w.text}.Latest(texts)
			if got != want || ok != wantOK {
				t.Fatalf("seed %d: %q among %v is %q, %t; want %q, %t", seed, w.text, texts, got, ok, want, wantOK)
			}
			if ok {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no reference has found a version")
	}
}

func TestLatestLeavesOutWhatIsNoVersion(t *testing.T) {
	t.Parallel()
	got, ok := Reference{Name: "a"}.Latest([]string{"", "1", "v9.0.0", "1.0.0", "nine"})
	if got != "1.0.0" || !ok {
		t.Errorf("the latest is %q, %t", got, ok)
	}
}

// Whatever is read as a reference is written so that it is read alike.
func FuzzParseReference(f *testing.F) {
	for _, seed := range []string{"deploy", "deploy@1", "a.b-c@>=1.1 <2 || ~3", "a@1.2.0-rc.1+x", "a@v1", "@", "a@ - "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReference(text)
		if err != nil {
			return
		}
		if again, err := ParseReference(r.String()); err != nil || again != r {
			t.Errorf("%q is %+v, which is read as %+v, %v", text, r, again, err)
		}
		if _, ok := r.Latest([]string{"1.0.0", text}); ok && r.Check() != nil {
			t.Errorf("%q finds a version by what is none", text)
		}
	})
}
