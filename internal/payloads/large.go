package payloads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Values keep values that are too large for a history; store.Values implement it.
type Values interface {
	Put(ctx context.Context, id, run string, data []byte) error
	Get(ctx context.Context, id string) ([]byte, error)
}

const (
	// threshold is the size from which on a value is kept in Values, in bytes.
	threshold = 128 << 10
	// MaxValue bounds the output of a tool, and the result of a run, with Values, in
	// bytes.
	MaxValue = 64 << 20
)

// Keep makes a client, and the workers that use it, keep large values outside; Temporal
// gets references. It comes after Seal, if that is used.
func Keep(o *client.Options, values Values) {
	o.ExternalStorage = converter.ExternalStorage{Drivers: []converter.StorageDriver{driver{values}}, PayloadSizeThreshold: threshold}
}

// Fetch makes a client fetch large values, but keep none: for a client that does not
// know whether the workers would find them.
func Fetch(o *client.Options, values Values) {
	Keep(o, values)
	o.ExternalStorage.PayloadSizeThreshold = math.MaxInt
}

// Reader reads payloads of histories and memos that the SDK has not fetched, so that
// they contain references to large values. parent is the client's converter; nil = the
// SDK's default. Without values, a reference is an error.
func Reader(parent converter.DataConverter, values Values) converter.DataConverter {
	return outsideOf(parent, &outside{values: values})
}

// Writer is a Reader that also keeps large values outside, for requests made without
// the SDK.
func Writer(parent converter.DataConverter, values Values) converter.DataConverter {
	return outsideOf(parent, &outside{values: values, keeps: true})
}

// Fetcher is a codec that replaces references by large values, for the runs that may
// allows. It is for one request, which may name a value many times: beyond MaxValue
// bytes in all, references stay.
func Fetcher(values Values, may func(run string) bool) converter.PayloadCodec {
	most := MaxValue
	return &outside{values: values, may: may, left: &most}
}

func outsideOf(parent converter.DataConverter, o *outside) converter.DataConverter {
	if parent == nil {
		parent = converter.GetDefaultDataConverter()
	}
	return converter.NewCodecDataConverter(parent, o)
}

// driverName is in histories.
const driverName = "perdure"

// Fields of a claim.
const (
	claimID  = "id"
	claimRun = "run"
)

// A driver is Values for the SDK. A reference has the ID and the run of a value; one
// that is stored again, by a repeated task, is kept once.
type driver struct{ values Values }

// Name is that in references.
func (driver) Name() string { return driverName }

// Type is the same.
func (driver) Type() string { return driverName }

// Store keeps payloads.
func (d driver) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	run := ""
	if of, ok := ctx.Target.(converter.StorageDriverWorkflowInfo); ok {
		run = of.WorkflowID
	}
	claims := make([]converter.StorageDriverClaim, len(payloads))
	for i, p := range payloads {
		err := ctx.GetLimiter().Permit(ctx.Context, p, func() (err error) {
			claims[i].ClaimData, err = keep(ctx.Context, d.values, run, p)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// Retrieve gives payloads, and refuses those that are not as stored.
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
	if values == nil {
		return nil, fmt.Errorf("%w of run %q: this process has none (--large-values, --database)", errNotFetched, run)
	}
	data, err := values.Get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("%w of run %q: %w", errNotFetched, run, err)
	}
	if idOf(run, data) != id {
		return nil, fmt.Errorf("%w of run %q: it was changed", errNotFetched, run)
	}
	var p commonpb.Payload
	return &p, proto.Unmarshal(data, &p)
}

// outside is a codec that replaces references by large values, and large values of a
// run by references, if it keeps any.
type outside struct {
	values Values
	keeps  bool
	may    func(run string) bool // runs whose values are fetched; nil = all
	left   *int                  // bytes that may still be fetched; nil = no limit
	run    string                // of the values; "" = unknown
}

var _ converter.PayloadCodecWithSerializationContext = (*outside)(nil)

// WithSerializationContext gives the codec for the payloads of a run.
func (o *outside) WithSerializationContext(of converter.SerializationContext) converter.PayloadCodec {
	bound := *o
	if of, ok := of.(converter.WorkflowSerializationContext); ok {
		bound.run = of.WorkflowID
	}
	return &bound
}

// Encode keeps large values.
func (o *outside) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	kept := slices.Clone(payloads)
	for i, p := range payloads {
		if _, is := reference(p); is || !o.keeps || o.run == "" || proto.Size(p) < threshold {
			continue
		}
		claim, err := keep(context.Background(), o.values, o.run, p)
		if err == nil {
			kept[i], err = referenceTo(claim, proto.Size(p))
		}
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// Decode fetches large values.
func (o *outside) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	whole := slices.Clone(payloads)
	for i, p := range payloads {
		claim, ok := reference(p)
		if !ok || o.may != nil && !o.may(claim[claimRun]) || o.left != nil && *o.left <= 0 {
			continue
		}
		var err error
		if whole[i], err = fetch(context.Background(), o.values, claim); err != nil {
			return nil, err
		}
		if o.left != nil {
			*o.left -= len(whole[i].Data)
		}
	}
	return whole, nil
}

// keep stores a payload under a digest of its content and its run, and gives its claim.
func keep(ctx context.Context, values Values, run string, p *commonpb.Payload) (claim map[string]string, err error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a value: %w", err)
	}
	id := idOf(run, data)
	return map[string]string{claimID: id, claimRun: run}, values.Put(ctx, id, run, data)
}

// referenceTo is the SDK's reference to a value of this size.
func referenceTo(claim map[string]string, size int) (*commonpb.Payload, error) {
	ref := &sdkpb.ExternalStorageReference{DriverName: driverName, ClaimData: claim}
	data, err := protojson.Marshal(ref)
	return &commonpb.Payload{
		Metadata: map[string][]byte{
			converter.MetadataEncoding:    []byte(converter.MetadataEncodingProtoJSON),
			converter.MetadataMessageType: []byte(ref.ProtoReflect().Descriptor().FullName()),
		},
		Data:             data,
		ExternalPayloads: []*commonpb.Payload_ExternalPayloadDetails{{SizeBytes: int64(size)}},
	}, err
}

// reference gives the claim of a payload that is a reference.
func reference(p *commonpb.Payload) (claim map[string]string, ok bool) {
	var ref sdkpb.ExternalStorageReference
	if string(p.GetMetadata()[converter.MetadataMessageType]) != string(ref.ProtoReflect().Descriptor().FullName()) {
		return nil, false
	}
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(p.Data, &ref)
	return ref.ClaimData, err == nil && ref.DriverName == driverName
}
