package payloads

import (
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// errNotFetched is in the chain of errors of large values that could not be fetched.
var errNotFetched error = missing("fetching a large value")

// Unread makes the failure of an activity whose input a worker could not read: nothing
// was executed. An empty activity type is unknown.
type Unread func(activity string, reason error) error

// ReportUnread makes workers report by unread that the key of an activity's input is
// missing, or that a large value in it could not be fetched; the SDK would report an
// ordinary failure. It comes after Seal and Keep.
func ReportUnread(o *client.Options, unread Unread) {
	f, ok := o.FailureConverter.(failures)
	if !ok {
		f = newFailures(o.DataConverter, nil)
	}
	f.unread = unread
	o.FailureConverter = f
}

// Failures convert failures of runs and of their activities, sealed if there are
// keys.
type failures struct {
	converter.FailureConverter
	data     converter.DataConverter
	codec    *Codec // nil = nothing is sealed or opened
	unread   Unread // nil = as the SDK
	activity string // activity type; "" = unknown
	insists  bool   // panics if it cannot read them: within a workflow
}

func newFailures(data converter.DataConverter, codec *Codec) failures {
	return failures{data: data, codec: codec, FailureConverter: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: data, EncodeCommonAttributes: codec != nil && codec.Keys != nil,
	})}
}

// WithSerializationContext gives the converter for the failures of a run. Those of
// activities are only read within workflows.
func (f failures) WithSerializationContext(of converter.SerializationContext) converter.FailureConverter {
	bound := newFailures(converter.WithDataConverterSerializationContext(f.data, of), f.codec)
	bound.unread = f.unread
	if of, ok := of.(converter.ActivitySerializationContext); ok {
		bound.activity, bound.insists = of.ActivityType, true
	}
	return bound
}

// ErrorToFailure converts an error.
func (f failures) ErrorToFailure(err error) *failurepb.Failure {
	var said *temporal.ApplicationError
	if f.unread != nil && (errors.Is(err, ErrNoKey) || errors.Is(err, errNotFetched)) && !errors.As(err, &said) {
		err = f.unread(f.activity, err)
	}
	return f.sealed(f.FailureConverter.ErrorToFailure(err))
}

// sealedText is what the SDK puts in the place of a text that it has sealed.
const sealedText = "Encoded failure"

// sealed is a failure whose texts are sealed if there are keys. An error that was
// read from a failure converts to that failure, which reading has left in clear.
func (f failures) sealed(failure *failurepb.Failure) *failurepb.Failure {
	if failure == nil || f.codec == nil || f.codec.Keys == nil {
		return failure
	}
	failure = proto.CloneOf(failure)
	for part := failure; part != nil; part = part.GetCause() {
		if part.GetEncodedAttributes() != nil && part.Message == sealedText && part.StackTrace == "" {
			continue
		}
		if err := converter.EncodeCommonFailureAttributes(f.data, part); err != nil {
			part.Message, part.StackTrace = "its text cannot be sealed", ""
		}
	}
	return failure
}

// FailureToError converts a failure. Within a workflow it panics if the key is missing,
// as insisting does: without the content the workflow could behave differently than on
// a worker that has the key.
func (f failures) FailureToError(failure *failurepb.Failure) error {
	for part := failure; f.insists && part != nil; part = part.GetCause() {
		_, err := f.codec.Decode(sealedIn(part))
		_ = insist(err)
	}
	return f.FailureConverter.FailureToError(proto.CloneOf(failure)) // which opens it in place
}

// sealedIn are the payloads of a failure, without its cause.
func sealedIn(f *failurepb.Failure) []*commonpb.Payload {
	all := f.GetApplicationFailureInfo().GetDetails().GetPayloads()
	all = append(all, f.GetCanceledFailureInfo().GetDetails().GetPayloads()...)
	all = append(all, f.GetTimeoutFailureInfo().GetLastHeartbeatDetails().GetPayloads()...)
	if f.GetEncodedAttributes() != nil {
		all = append(all, f.GetEncodedAttributes())
	}
	return all
}
