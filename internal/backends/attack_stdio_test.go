package backends

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// floodVar names what the child floods with, noteVar where it notes how much was
// taken.
const (
	floodVar = "PERDURE_TEST_FLOOD"
	noteVar  = "PERDURE_TEST_NOTE"
)

// serveFlood is a server on stdio that connects as any, and writes without end
// when its tool is called, or to stderr from the beginning.
func serveFlood() {
	flood := os.Getenv(floodVar)
	if flood == "large" {
		flood = `{"jsonrpc":"2.0","method":"x","params":[` + strings.Repeat("[],", 100_000) + "1]}\n"
	}
	to := os.Stdout
	if flood == "stderr" {
		flood, to = strings.Repeat("x", 100)+"\n", os.Stderr
		go floodTo(to, flood)
	}
	answers := 0
	for lines := bufio.NewReader(os.Stdin); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(line, &request) != nil || len(request.ID) == 0 {
			continue
		}
		var result any
		switch request.Method {
		case "":
			answers++
			os.WriteFile(os.Getenv(noteVar)+".answers", []byte(strconv.Itoa(answers)), 0o600)
			continue
		case "initialize":
			result = map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "evil", "version": "1"}}
		case "tools/list":
			result = map[string]any{"tools": []any{named("go")}}
		case "tools/call":
			if flood == "garbled" {
				fmt.Printf(`{"jsonrpc":2.0,"id":%s,"result":{"content":[]}}`+"\n", request.ID)
				continue
			}
			if to == os.Stdout {
				go floodTo(to, flood)
				continue
			}
			result = map[string]any{"content": []any{}}
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", request.ID)
			continue
		}
		text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": result})
		fmt.Println(string(text))
	}
}

func floodTo(to *os.File, text string) {
	chunk := []byte(strings.Repeat(text, max(1, (64<<10)/len(text))))
	for sent := 0; ; {
		n, err := to.Write(chunk)
		sent += n
		os.WriteFile(os.Getenv(noteVar), []byte(strconv.Itoa(sent)), 0o600)
		if err != nil {
			return
		}
	}
}

func noted(file string) int {
	text, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(string(text))
	return n
}

// TestAttackBackendStdio: a child process writes without end.
func TestAttackBackendStdio(t *testing.T) {
	for name, text := range map[string]string{
		"log lines":             "starting up\n",
		"empty lines":           "\n",
		"a line without an end": "x",
		"notifications":         `{"jsonrpc":"2.0","method":"notifications/message","params":{}}` + "\n",
		"requests":              `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n",
		"answers to nobody":     `{"jsonrpc":"2.0","id":12345,"result":{}}` + "\n",
		"large notifications":   "large",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			note := filepath.Join(t.TempDir(), "sent")
			config := childConfig("flood")
			config.Env[floodVar], config.Env[noteVar], config.MaxResultBytes = text, note, 4<<20
			began := time.Now()
			p := open(t, config)
			_, err := callGo(t, p, Call{})
			if ce := callError(t, err); ce.Outcome != Unknown || !errors.Is(err, errFlood) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v, outcome %d", err, ce.Outcome)
			}
			if n := noted(note); n > flooded {
				t.Errorf("%d MB were read", n>>20)
			}
			if n := noted(note + ".answers"); int64(n) > mostRequests(began) {
				t.Errorf("%d requests were answered", n)
			}
		})
	}
}

// TestAttackBackendStderr: a child process that writes to stderr without end waits,
// and serves its calls beside it.
func TestAttackBackendStderr(t *testing.T) {
	t.Parallel()
	note := filepath.Join(t.TempDir(), "sent")
	config := childConfig("flood")
	config.Env[floodVar], config.Env[noteVar] = "stderr", note
	began := time.Now()
	p := open(t, config)
	for served := time.Now(); time.Since(served) < time.Second || noted(note) < chatterAtOnce && time.Since(served) < patience; {
		if _, err := callGo(t, p, Call{}); err != nil {
			t.Fatal(err)
		}
	}
	n := float64(noted(note))
	if most := chatterAtOnce + (time.Since(began).Seconds()+1)*chatterRate + 4<<20; n > most { // 4 MB: what pipes and the note are behind
		t.Errorf("%.0f bytes were read in %s", n, time.Since(began))
	}
}

// TestAttackChildAnswerGarbled: an answer that is none of JSON-RPC, though it names its
// request, ends that request at once.
func TestAttackChildAnswerGarbled(t *testing.T) {
	t.Parallel()
	cfg := childConfig("flood")
	cfg.Env[floodVar] = "garbled"
	p, _ := openChild(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := p.Call(ctx, Call{Backend: "be", Tool: "go"})
	if ce := callError(t, err); ce.Outcome != Unknown || !strings.Contains(err.Error(), "decoding the answer") {
		t.Errorf("%v, outcome %d", err, ce.Outcome)
	}
}
