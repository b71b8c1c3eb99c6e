package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestLogThatHangs: while nobody reads the log, what logs waits for a moment once. When
// somebody reads again, the lines are there in order, and the log says how many are not.
func TestLogThatHangs(t *testing.T) {
	t.Parallel()
	reader, to := io.Pipe()
	defer reader.Close()
	log := (&logFlags{LogFormat: "json"}).logger(&console{err: to}, "")
	const lines = 3 * logLines
	began := time.Now()
	for i := range lines {
		log.Info("a line", "n", i)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d lines took %s", lines, took)
	}
	read := bufio.NewScanner(reader)
	next := 0
	for read.Scan() && strings.Contains(read.Text(), fmt.Sprintf(`"n":%d}`, next)) {
		next++
	}
	if want := fmt.Sprintf(`"level":"WARN","msg":"lines of the log were dropped, since nobody read it","lines":%d}`, lines-next); next == 0 || !strings.HasSuffix(read.Text(), want) {
		t.Errorf("after %d lines comes %s, want %s", next, read.Text(), want)
	}
	go log.Info("a line", "n", "last")
	if !read.Scan() || !strings.Contains(read.Text(), `"n":"last"`) {
		t.Errorf("afterwards: %s", read.Text())
	}
}
