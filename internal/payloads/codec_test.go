package payloads_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/perduretest"
)

var (
	first  = "2026-10:" + strings.Repeat("0a", 32)
	second = "2026-11:" + strings.Repeat("0b", 32)
)

func readKeys(t *testing.T, lines ...string) *payloads.Keys {
	t.Helper()
	keys, err := payloads.ReadKeys(t.Context(), func(context.Context) ([]byte, error) { return []byte(strings.Join(lines, "\n")), nil })
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// dataConverter is one for the payloads of a run.
func dataConverter(keys *payloads.Keys, run string) converter.DataConverter {
	c := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), &payloads.Codec{Keys: keys})
	return converter.WithDataConverterSerializationContext(c, converter.WorkflowSerializationContext{WorkflowID: run})
}

// TestSeal shows that what is sealed opens with the keys that know it, also
// after a rotation, and is the same value; and that nothing of it is readable.
func TestSeal(t *testing.T) {
	t.Parallel()
	const value = `{"n":12345678901234567890,"text":"planted"}`
	sealed, err := dataConverter(readKeys(t, "# the first", first), "tool/1").ToPayload([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed.Data, []byte("planted")) {
		t.Errorf("sealed is %q", sealed.Data)
	}
	for _, keys := range [][]string{{first}, {second, "", first}} {
		var opened []byte
		if err := dataConverter(readKeys(t, keys...), "tool/1").FromPayload(sealed, &opened); err != nil || string(opened) != value {
			t.Errorf("with %d keys it opens as %q, %v", len(keys), opened, err)
		}
	}
	again, err := dataConverter(readKeys(t, first), "tool/1").ToPayload([]byte(value))
	if err != nil || bytes.Equal(again.Data, sealed.Data) {
		t.Errorf("the same value sealed twice is the same: %v", err)
	}
	clear := perduretest.Must(converter.GetDefaultDataConverter().ToPayload(value))(t)
	var opened string
	if err := dataConverter(readKeys(t, first), "tool/1").FromPayload(clear, &opened); err != nil || opened != value {
		t.Errorf("what was never sealed is %q, %v", opened, err)
	}
}

// TestSealThatDoesNotOpen shows what is refused.
func TestSealThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	sealed := perduretest.Must(dataConverter(readKeys(t, first), "tool/1").ToPayload("planted"))(t)
	changed := func(f func(*commonpb.Payload)) *commonpb.Payload {
		p := &commonpb.Payload{Data: bytes.Clone(sealed.Data), Metadata: map[string][]byte{}}
		for k, v := range sealed.Metadata {
			p.Metadata[k] = bytes.Clone(v)
		}
		f(p)
		return p
	}
	for name, c := range map[string]struct {
		payload *commonpb.Payload
		keys    string
		want    string
	}{
		"another key":              {sealed, second, `sealed with key "2026-10"`},
		"the same ID, another key": {sealed, "2026-10:" + strings.Repeat("0c", 32), "was changed"},
		"another run":              {changed(func(p *commonpb.Payload) { p.Metadata["perdure-run"] = []byte("tool/2") }), first, "was changed"},
		"one bit":                  {changed(func(p *commonpb.Payload) { p.Data[len(p.Data)-1] ^= 1 }), first, "was changed"},
		"no key":                   {changed(func(p *commonpb.Payload) { p.Metadata["encryption-key-id"] = nil }), first, "does not name the key"},
		"truncated":                {changed(func(p *commonpb.Payload) { p.Data = p.Data[:7] }), first, "truncated"},
		"without data":             {changed(func(p *commonpb.Payload) { p.Data = p.Data[:16] }), first, "was changed"},
	} {
		var opened string
		if err := dataConverter(readKeys(t, c.keys), "tool/1").FromPayload(c.payload, &opened); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestMay shows that what somebody may not see stays sealed.
func TestMay(t *testing.T) {
	t.Parallel()
	keys := readKeys(t, first)
	var sealed []*commonpb.Payload
	for _, run := range []string{"tool/1", "tool/2"} {
		p := perduretest.Must(dataConverter(keys, run).ToPayload("planted"))(t)
		sealed = append(sealed, p)
	}
	opened, err := (&payloads.Codec{Keys: keys, May: func(run string) bool { return run == "tool/1" }}).Decode(sealed)
	if err != nil || !bytes.Contains(opened[0].Data, []byte("planted")) || opened[1] != sealed[1] {
		t.Errorf("opened is %v, %v", opened, err)
	}
}

// TestKeys shows what is wrong with keys, without showing one.
func TestKeys(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		"":                          "no key",
		"# nothing":                 "no key",
		secret:                      "line 1",
		"\na b:" + secret:           "line 2",
		"a:" + secret + "0a":        "line 1",
		first + "\n" + first:        `line 2: duplicate key ID "2026-10"`,
		"a:" + secret[2:] + "\nb:x": "line 1",
	} {
		_, err := payloads.ReadKeys(t.Context(), func(context.Context) ([]byte, error) { return []byte(text), nil })
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret[4:]) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	broken := errors.New("no KMS")
	if _, err := payloads.ReadKeys(t.Context(), func(context.Context) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("a source that fails: %v", err)
	}
}

// TestKeySourceThatHangs: while the keys are read again for a payload with an unknown one,
// payloads with known ones are sealed and opened, and the source is not asked for each.
func TestKeySourceThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		keys, err := payloads.ReadKeys(t.Context(), func(ctx context.Context) ([]byte, error) {
			if asked++; asked > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []byte(first), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		unknown := perduretest.Must(dataConverter(readKeys(t, second), "tool/1").ToPayload("x"))(t)
		time.Sleep(time.Minute)
		open := func() {
			var opened string
			if err := dataConverter(keys, "tool/1").FromPayload(unknown, &opened); !errors.Is(err, payloads.ErrNoKey) {
				t.Errorf("got %v", err)
			}
		}
		go open()
		time.Sleep(time.Second)
		began := time.Now()
		var opened string
		p, err := dataConverter(keys, "tool/1").ToPayload("x")
		if err != nil || dataConverter(keys, "tool/1").FromPayload(p, &opened) != nil || opened != "x" || !keys.Has("2026-10") {
			t.Errorf("got %q, %v", opened, err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it waited for %s", took)
		}
		time.Sleep(30 * time.Second)
		if open(); asked != 2 {
			t.Errorf("the source was asked %d times, want 2", asked)
		}
	})
}

// FuzzKeys looks for text that is no error and no key either.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(first + "\n" + second))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := payloads.ReadKeys(t.Context(), func(context.Context) ([]byte, error) { return slices.Clone(text), nil })
		if err != nil {
			return
		}
		p, err := dataConverter(keys, "tool/1").ToPayload("x")
		var opened string
		if err != nil || dataConverter(keys, "tool/1").FromPayload(p, &opened) != nil || opened != "x" {
			t.Errorf("keys of %q do not open what they seal: %v", text, err)
		}
	})
}
