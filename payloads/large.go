package payloads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Values keep what is too large for a history; store.Values are some.
type Values interface {
	Put(ctx context.Context, id, run string, data []byte) error
	Get(ctx context.Context, id string) ([]byte, error)
}

const (
	// Threshold is the size from which on a value is kept in Values, in bytes.
	Threshold = 128 << 10
	// MaxValue bounds the output of a tool, and the result of a run, where there
	// are Values, in bytes.
	MaxValue = 64 << 20
)

// Keep has a client, and the workers that use it, keep large values elsewhere:
// Temporal is told where they are. It comes after Seal, if that comes.
func Keep(o *client.Options, values Values) {
	o.ExternalStorage = converter.ExternalStorage{Drivers: []converter.StorageDriver{driver{values}}, PayloadSizeThreshold: Threshold}
}

// Reader reads what histories and memos hold that no worker or client has
// fetched, for whom a data converter alone would see where large values are.
// parent is the client's; nil = the SDK's default.
func Reader(parent converter.DataConverter, values Values) converter.DataConverter {
	if parent == nil {
		parent = converter.GetDefaultDataConverter()
	}
	return converter.NewCodecDataConverter(parent, fetching{values})
}

// driverName stands in histories.
const driverName = "perdure"

// What a claim says.
const (
	claimID  = "id"
	claimRun = "run"
)

// A driver is Values as the SDK wants them.
type driver struct{ values Values }

// Name is what references say.
func (driver) Name() string { return driverName }

// Type is the same: there is one.
func (driver) Type() string { return driverName }

// Store keeps payloads under a digest of what they are and whose: one that is
// stored again, because a task is repeated, is there once.
func (d driver) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	run := ""
	if of, ok := ctx.Target.(converter.StorageDriverWorkflowInfo); ok {
		run = of.WorkflowID
	}
	claims := make([]converter.StorageDriverClaim, len(payloads))
	for i, p := range payloads {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encoding a value: %w", err)
		}
		id := idOf(run, data)
		if err := ctx.GetLimiter().Permit(ctx.Context, p, func() error { return d.values.Put(ctx.Context, id, run, data) }); err != nil {
			return nil, err
		}
		claims[i] = converter.StorageDriverClaim{ClaimData: map[string]string{claimID: id, claimRun: run}}
	}
	return claims, nil
}

// Retrieve gives payloads back, and refuses what is not what was stored.
func (d driver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	payloads := make([]*commonpb.Payload, len(claims))
	for i, claim := range claims {
		err := ctx.GetLimiter().Permit(ctx.Context, claim, func() (err error) {
			payloads[i], err = fetch(ctx.Context, d.values, claim.ClaimData)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return payloads, nil
}

func idOf(run string, data []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", run)
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func fetch(ctx context.Context, values Values, claim map[string]string) (*commonpb.Payload, error) {
	id, run := claim[claimID], claim[claimRun]
	data, err := values.Get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("fetching a large value of run %q: %w", run, err)
	}
	if idOf(run, data) != id {
		return nil, fmt.Errorf("fetching a large value of run %q: it was changed", run)
	}
	var p commonpb.Payload
	return &p, proto.Unmarshal(data, &p)
}

// Fetching is a codec that puts large values in the place of references to them.
type fetching struct{ values Values }

// Encode changes nothing.
func (fetching) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return payloads, nil
}

// Decode fetches what is elsewhere.
func (f fetching) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	whole := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		whole[i] = p
		claim, ok := reference(p)
		if !ok {
			continue
		}
		var err error
		if whole[i], err = fetch(context.Background(), f.values, claim); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// reference is what a payload that stands for a large value says of it.
func reference(p *commonpb.Payload) (claim map[string]string, ok bool) {
	var ref sdkpb.ExternalStorageReference
	if string(p.GetMetadata()[converter.MetadataMessageType]) != string(ref.ProtoReflect().Descriptor().FullName()) {
		return nil, false
	}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(p.Data, &ref)
	return ref.ClaimData, err == nil && ref.DriverName == driverName
}
