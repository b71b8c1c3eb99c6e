package runs

import (
	"testing"
	"time"
)

func TestNews(t *testing.T) {
	t.Parallel()
	n := NewNews()
	ear, done := n.about("a")
	second, secondDone := n.about("a")
	other, otherDone := n.about("b")
	defer otherDone()
	n.tell("a")
	n.tell("a") // is no more news than once
	n.tell("c") // nobody listens
	if !soon(t.Context(), ear, 0) || soon(t.Context(), ear, 0) {
		t.Error("the news did not come once")
	}
	if soon(t.Context(), other, time.Millisecond) {
		t.Error("news of another run came")
	}
	done()
	n.tell("a")
	if soon(t.Context(), ear, 0) {
		t.Error("news came after done")
	}
	if !soon(t.Context(), second, 0) {
		t.Error("one of two listens no more, and the other was not told")
	}
	secondDone()
	if len(n.listening) != 1 {
		t.Errorf("%d runs are listened to, want 1", len(n.listening))
	}
	var none *News
	ear, done = none.about("a")
	defer done()
	if soon(t.Context(), ear, time.Millisecond) {
		t.Error("news came of nobody")
	}
}
