package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	s := newSealer([]byte("new"), [][]byte{[]byte("old")})
	s.now = func() time.Time { return now }
	old := newSealer([]byte("old"), nil)
	stranger := newSealer([]byte("stranger"), nil)
	mine := func(expires time.Time) *state {
		return &state{claims: claims{CallerID: "ann", Expires: expires.Unix()}, Run: "a/b", Tool: "a", Seq: 7, Asked: map[string]int{"g#1": 1}}
	}
	valid := mine(now.Add(time.Hour))
	good := s.seal(statePurpose, valid)
	for name, tt := range map[string]struct {
		token, purpose, callerID string
		want                     error
	}{
		"good":                  {good, statePurpose, "ann", nil},
		"of a retired key":      {old.seal(statePurpose, valid), statePurpose, "ann", nil},
		"of an unknown key":     {stranger.seal(statePurpose, valid), statePurpose, "ann", errNoKey},
		"for another purpose":   {good, eventPurpose, "ann", errForged},
		"with its purpose new":  {strings.Replace(good, "state", "event", 1), eventPurpose, "ann", errForged},
		"for somebody else":     {good, statePurpose, "bob", errForeign},
		"expired":               {s.seal(statePurpose, mine(now.Add(-time.Second))), statePurpose, "ann", errExpired},
		"cut short":             {good[:len(good)-1], statePurpose, "ann", errForged},
		"with a part more":      {good + ".", statePurpose, "ann", errForged},
		"empty":                 {"", statePurpose, "ann", errForged},
		"with a changed letter": {strings.Replace(good, ".eyJ", ".eyK", 1), statePurpose, "ann", errForged},
	} {
		var got state
		if err := s.open(tt.purpose, tt.token, tt.callerID, &got); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		} else if tt.want == nil {
			if diff := cmp.Diff(*valid, got, cmp.AllowUnexported(state{}, claims{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if again := s.seal(statePurpose, mine(now.Add(time.Hour))); again != good {
		t.Error("the same content gives another token")
	}
}

// TestTokenOfAnotherKey: a gateway that gets tokens of a key which it lacks says so, once
// a minute.
func TestTokenOfAnotherKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var log bytes.Buffer
	s := newSealer([]byte("key"), nil)
	s.now, s.lacks = func() time.Time { return now }, lackWarnings(slog.New(slog.NewTextHandler(&log, nil)))
	open := func(times int) {
		for range times {
			_ = s.open(sessionPurpose, newSealer([]byte("other"), nil).seal(sessionPurpose, &session{}), "", &session{})
			_ = s.open(sessionPurpose, "forged", "", &session{})
		}
	}
	open(3)
	now = now.Add(time.Minute)
	open(2)
	if n := strings.Count(log.String(), "gateways have different ones"); n != 2 {
		t.Errorf("it says %d times:\n%s", n, log.String())
	}
}

func TestDerivedID(t *testing.T) {
	t.Parallel()
	a := derivedID("deploy", "session", "ann", "1", "2")
	if a != derivedID("deploy", "session", "ann", "1", "2") {
		t.Error("not the same twice")
	}
	if a == derivedID("deploy", "session", "ann", "12", "") {
		t.Error("parts run into each other")
	}
	if name, suffix, ok := strings.Cut(string(a), "/"); !ok || name != "deploy" || len(suffix) != 16 || strings.ToLower(suffix) != suffix {
		t.Errorf("ID is %s", a)
	}
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	var got []float64
	last := -1.0
	for _, done := range []float64{0, 0, 0, 1, 1, 3, 2, 3} {
		last = advance(last, done)
		got = append(got, last)
	}
	want := []float64{0, 0.5, 2.0 / 3, 1, 1.5, 3, 3.5, 3 + 2.0/3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	last = 4
	for range 100_000 {
		next := advance(last, 4)
		if next <= last || next >= 5 {
			t.Fatalf("%v follows %v", next, last)
		}
		last = next
	}
}

// What nobody counts, and what comes between two counts of a script, moves no bar.
func TestInch(t *testing.T) {
	t.Parallel()
	var got []float64
	last := -1.0
	for _, done := range []float64{0, 0, 0, 0.25, 0.25, 1, 1, 0.5} {
		last = smallStep(last, done, 1)
		got = append(got, last)
	}
	want := []float64{0, 0.000001, 0.000002, 0.25, 0.250001, 1, 1.000001, 1.000002}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, last := range []float64{1 << 53, 1e18} {
		if next := smallStep(last, 0, last); next <= last {
			t.Errorf("%v follows %v", next, last)
		}
	}
}

// FuzzOpen has no token open that was not sealed, and nothing panic.
func FuzzOpen(f *testing.F) {
	s := newSealer([]byte("key"), nil)
	sealed := s.seal(eventPurpose, &cursor{claims: claims{CallerID: "ann"}, Run: "a/b", ID: json.RawMessage(`1`), Progress: -1})
	f.Add(sealed)
	f.Add("event.." + encode64([]byte(`{"p":"ann"}`)) + ".")
	f.Add("event." + s.keys[0].id + ".e30.AAAA")
	f.Add("....")
	f.Fuzz(func(t *testing.T, text string) {
		var c cursor
		if err := s.open(eventPurpose, text, "ann", &c); err == nil && text != sealed {
			t.Errorf("opened %q: %+v", text, c)
		}
	})
}

// FuzzAdvance has progress increase whatever came before.
func FuzzAdvance(f *testing.F) {
	f.Add(0.5, 3)
	f.Fuzz(func(t *testing.T, last float64, done int) {
		if math.IsNaN(last) || last < -1 || last > 1e6 || done < 0 || done > 1e6 {
			t.Skip()
		}
		if f := last - math.Floor(last); f > 1-1e-6 {
			t.Skip("not a value that was sent before")
		}
		if next := advance(last, float64(done)); next <= last || next >= max(math.Floor(last), float64(done))+1 {
			t.Errorf("%v follows %v with %d done", next, last, done)
		}
	})
}
