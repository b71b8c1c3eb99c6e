// Package payloads seals the values of runs (AES-256-GCM) before they go to Temporal,
// and opens them when they come back, and keeps large values outside of histories.
package payloads

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// Metadata of a sealed payload.
const (
	encoding = "binary/encrypted" // of Temporal's samples, which the Web UI knows
	keyField = "encryption-key-id"
	runField = "perdure-run" // the run of the payload, which is bound to it
)

// Seal makes a client, and the workers that use it, seal what they send and open what
// they get. Payloads in clear are accepted. Without keys nothing is sealed, and a sealed
// payload is a clear error.
func Seal(o *client.Options, keys *Keys) {
	codec := &Codec{Keys: keys}
	o.DataConverter = sealing{converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec), keys != nil}
	o.FailureConverter = newFailures(o.DataConverter, codec)
}

// An Unsealable value is informed if it came in clear to a process that seals, and of why
// it could not be opened or read, which is then no error unless a key is missing.
type Unsealable interface {
	Unsealed()
	Unreadable(why error)
}

// A sealing is the data converter of a client. Within a workflow it is insisting.
type sealing struct {
	converter.DataConverter
	seals bool // there are keys
}

// FromPayload opens one.
func (s sealing) FromPayload(p *commonpb.Payload, into any) error {
	err := s.DataConverter.FromPayload(p, into)
	s.note(p, into)
	return unreadable(err, into)
}

// FromPayloads opens some.
func (s sealing) FromPayloads(p *commonpb.Payloads, into ...any) error {
	err := s.DataConverter.FromPayloads(p, into...)
	for i, v := range into[:min(len(into), len(p.GetPayloads()))] {
		s.note(p.Payloads[i], v)
	}
	if len(into) == 1 {
		err = unreadable(err, into[0])
	}
	return err
}

func unreadable(err error, into any) error {
	v, ok := into.(Unsealable)
	if !ok || err == nil || errors.Is(err, ErrNoKey) {
		return err
	}
	v.Unreadable(err)
	return nil
}

func (s sealing) note(p *commonpb.Payload, into any) {
	if v, ok := into.(Unsealable); ok && s.seals && KeyOf(p) == "" {
		v.Unsealed()
	}
}

var _ workflow.ContextAware = sealing{}

// WithSerializationContext gives the converter for the payloads of a run.
func (s sealing) WithSerializationContext(of converter.SerializationContext) converter.DataConverter {
	return sealing{converter.WithDataConverterSerializationContext(s.DataConverter, of), s.seals}
}

// WithWorkflowContext gives the converter within a workflow.
func (s sealing) WithWorkflowContext(workflow.Context) converter.DataConverter {
	return insisting{s}
}

// WithContext changes nothing.
func (s sealing) WithContext(context.Context) converter.DataConverter { return s }

// An insisting data converter panics if a key is missing, which fails the workflow task
// and not the workflow. Another worker, or this one once it has the key, executes the
// task. An error would fail the run.
type insisting struct{ converter.DataConverter }

// WithSerializationContext gives the converter for the payloads of a run.
func (i insisting) WithSerializationContext(of converter.SerializationContext) converter.DataConverter {
	return insisting{converter.WithDataConverterSerializationContext(i.DataConverter, of)}
}

// FromPayload opens one.
func (i insisting) FromPayload(p *commonpb.Payload, into any) error {
	return insist(i.DataConverter.FromPayload(p, into))
}

// FromPayloads opens some.
func (i insisting) FromPayloads(p *commonpb.Payloads, into ...any) error {
	return insist(i.DataConverter.FromPayloads(p, into...))
}

func insist(err error) error {
	if errors.Is(err, ErrNoKey) {
		panic(err)
	}
	return err
}

// KeyOf is the ID of the key that sealed a payload; "" = it is not sealed.
func KeyOf(p *commonpb.Payload) string {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding {
		return ""
	}
	return string(p.Metadata[keyField])
}

// A Codec seals and opens payloads.
type Codec struct {
	Keys *Keys // nil = nothing is sealed, and sealed payloads cannot be opened
	// May reports whether payloads of a run, "" = unknown, are opened; others stay
	// sealed. nil = all are opened.
	May func(run string) bool

	run string // of the payloads
}

var _ converter.PayloadCodecWithSerializationContext = (*Codec)(nil)

// WithSerializationContext gives the codec for the payloads of a run.
func (c *Codec) WithSerializationContext(of converter.SerializationContext) converter.PayloadCodec {
	bound := *c
	switch of := of.(type) {
	case converter.WorkflowSerializationContext:
		bound.run = of.WorkflowID
	case converter.ActivitySerializationContext:
		bound.run = of.WorkflowID
	}
	return &bound
}

// Encode seals payloads.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	if c.Keys == nil {
		return payloads, nil
	}
	sealed := make([]*commonpb.Payload, len(payloads))
	with := c.Keys.sealing()
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("sealing a payload: %w", err)
		}
		salt := make([]byte, saltBytes)
		_, _ = rand.Read(salt) // never fails
		aead, err := with.cipher(salt)
		if err != nil {
			return nil, fmt.Errorf("sealing a payload: %w", err)
		}
		sealed[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), keyField: []byte(with.id), runField: []byte(c.run)},
			Data:     aead.Seal(salt, nil, plain, bound(with.id, c.run)),
		}
	}
	return sealed, nil
}

// Decode opens those payloads that are sealed.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	opened := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		opened[i] = p
		run := string(p.GetMetadata()[runField])
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding || c.May != nil && !c.May(run) {
			continue
		}
		plain, err := c.open(p, run)
		if err != nil {
			return nil, fmt.Errorf("opening a payload of run %q: %w", run, err)
		}
		opened[i] = plain
	}
	return opened, nil
}

func (c *Codec) open(p *commonpb.Payload, run string) (*commonpb.Payload, error) {
	id := string(p.Metadata[keyField])
	if id == "" {
		return nil, errors.New("it does not name the key with which it was sealed")
	}
	if c.Keys == nil {
		return nil, fmt.Errorf("it was sealed with key %q, %w; this process has none", id, ErrNoKey)
	}
	with, err := c.Keys.opening(id)
	if err != nil {
		return nil, err
	}
	if len(p.Data) < saltBytes {
		return nil, fmt.Errorf("it is truncated")
	}
	aead, err := with.cipher(p.Data[:saltBytes])
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, p.Data[saltBytes:], bound(id, run))
	if err != nil {
		return nil, fmt.Errorf("it was changed, or key %q now has another value: %w", id, err)
	}
	var opened commonpb.Payload
	return &opened, proto.Unmarshal(plain, &opened)
}

const saltBytes = 16

// cipher is that of one payload. Each has a key of its own, so that one key
// seals any number of them: random nonces of GCM alone would be safe for 2³².
func (k key) cipher(salt []byte) (cipher.AEAD, error) {
	secret, err := hkdf.Key(sha256.New, k.secret, salt, "perdure payload v1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// bound is the additional data of a sealed payload.
func bound(key, run string) []byte { return fmt.Appendf(nil, "%q %q", key, run) }
