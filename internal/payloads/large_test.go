package payloads_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/perdure/perdure/internal/payloads"
	"github.com/perdure/perdure/internal/perduretest"
)

type memory map[string][]byte

func (m memory) Put(_ context.Context, id, _ string, data []byte) error { m[id] = data; return nil }

func (m memory) Get(_ context.Context, id string) ([]byte, error) {
	data, ok := m[id]
	if !ok {
		return nil, errors.New("not there")
	}
	return data, nil
}

// TestLarge shows that what is kept elsewhere, sealed or not, comes back whole,
// and that what was changed or has gone is an error and nothing else.
func TestLarge(t *testing.T) {
	t.Parallel()
	values := memory{}
	var o client.Options
	payloads.Seal(&o, readKeys(t, first))
	payloads.Keep(&o, values)
	driver := o.ExternalStorage.Drivers[0]
	large := strings.Repeat("planted ", 100_000)
	sealed, err := converter.WithDataConverterSerializationContext(o.DataConverter, converter.WorkflowSerializationContext{WorkflowID: "tool/1"}).ToPayload(large)
	if err != nil {
		t.Fatal(err)
	}
	in := converter.StorageDriverStoreContext{Context: t.Context(), Target: converter.StorageDriverWorkflowInfo{WorkflowID: "tool/1"}}
	claims := perduretest.Must(driver.Store(in, []*commonpb.Payload{sealed}))(t)
	if again, err := driver.Store(in, []*commonpb.Payload{sealed}); err != nil || again[0].ClaimData["id"] != claims[0].ClaimData["id"] || len(values) != 1 {
		t.Errorf("stored again it is %v, of %d values, %v", again, len(values), err)
	}
	fetch := func() (opened string, err error) {
		found, err := driver.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, claims)
		if err == nil {
			err = o.DataConverter.FromPayload(found[0], &opened)
		}
		return opened, err
	}
	if opened, err := fetch(); err != nil || opened != large {
		t.Errorf("it comes back with %d bytes, %v", len(opened), err)
	}
	id := claims[0].ClaimData["id"]
	reference := &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("json/protobuf"), "messageType": []byte("temporal.api.sdk.v1.ExternalStorageReference")},
		Data:     []byte(`{"driverName":"perdure","claimData":{"id":"` + id + `","run":"tool/1"}}`),
	}
	var opened string
	if err := payloads.Reader(o.DataConverter, values).FromPayload(reference, &opened); err != nil || opened != large {
		t.Errorf("read from a history it has %d bytes, %v", len(opened), err)
	}
	of := func(run string) converter.DataConverter {
		return converter.WithDataConverterSerializationContext(payloads.Writer(o.DataConverter, values), converter.WorkflowSerializationContext{WorkflowID: run})
	}
	for _, c := range []struct {
		run, value string
		stored     int
	}{{"tool/1", "small", 0}, {"tool/1", large, 1}, {"", large, 0}} {
		before := len(values)
		p := perduretest.Must(of(c.run).ToPayload(c.value))(t)
		if err := payloads.Reader(o.DataConverter, values).FromPayload(p, &opened); err != nil || opened != c.value || len(values)-before != c.stored || c.stored > 0 && (len(p.Data) > 1000 || len(p.ExternalPayloads) != 1) {
			t.Errorf("written by %q it comes back with %d bytes of %d, %d are stored, %v", c.run, len(opened), len(c.value), len(values)-before, err)
		}
	}
	fetcher := payloads.Fetcher(values, func(run string) bool { return run == "tool/2" })
	if kept, err := fetcher.Decode([]*commonpb.Payload{reference}); err != nil || kept[0] != reference {
		t.Errorf("for whom it is not it is %v, %v", kept, err)
	}
	values[id][100] ^= 1
	if _, err := fetch(); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("one bit is another: %v", err)
	}
	delete(values, id)
	if _, err := fetch(); err == nil || !strings.Contains(err.Error(), `of run "tool/1"`) {
		t.Errorf("it is gone: %v", err)
	}
}

// TestFetcherIsBounded shows that one request, which may name a large value as
// often as it likes, does not have it fetched as often: what is too much stays a
// reference.
func TestFetcherIsBounded(t *testing.T) {
	t.Parallel()
	values := memory{}
	large := strings.Repeat("x", payloads.MaxValue/4)
	encoded, err := converter.WithDataConverterSerializationContext(payloads.Writer(nil, values), converter.WorkflowSerializationContext{WorkflowID: "tool/1"}).ToPayload(large)
	if err != nil {
		t.Fatal(err)
	}
	asked := make([]*commonpb.Payload, 1000)
	for i := range asked {
		asked[i] = encoded
	}
	whole, err := payloads.Fetcher(values, func(string) bool { return true }).Decode(asked)
	if err != nil {
		t.Fatal(err)
	}
	got, fetched := 0, 0
	for _, p := range whole {
		if got += len(p.Data); len(p.Data) > len(large) {
			fetched++
		}
	}
	if fetched == 0 || got > 2*payloads.MaxValue {
		t.Errorf("%d values were fetched, %d bytes", fetched, got)
	}
}
