package quarantine

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/perdure/perdure/internal/signing"
)

// Prove is the input of ReleaseSignal or FailSignal to an execution: what an
// operator says, and the proof that a process of the installation sends it.
// Content goes as it is, sealed or not.
func Prove(keys *signing.Keys, signal string, to *commonpb.WorkflowExecution, content *commonpb.Payload) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{content, plain(keys.Sign(statement(signal, to, content)...))}}
}

// Proven reports whether an execution may believe a signal, by its name and input.
type Proven func(signal string, input *commonpb.Payloads) bool

// ProvenBy believes what Prove has made for the execution with one of the keys; of
// no keys, nothing.
func ProvenBy(keys *signing.Keys, to *commonpb.WorkflowExecution) Proven {
	return func(signal string, input *commonpb.Payloads) bool {
		parts := input.GetPayloads()
		var proof string
		return len(parts) == 2 && json.Unmarshal(parts[1].GetData(), &proof) == nil &&
			keys.Check(proof, statement(signal, to, parts[0])...) == nil
	}
}

func statement(signal string, to *commonpb.WorkflowExecution, content *commonpb.Payload) []string {
	return []string{"quarantine", signal, to.GetWorkflowId(), to.GetRunId(), string(content.GetData())}
}

// plain is a payload that everybody can read.
func plain(v any) *commonpb.Payload {
	data, err := json.Marshal(v)
	if err != nil {
		panic("quarantine: encoding what is always JSON: " + err.Error())
	}
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: data}
}
