package quarantine

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"

	"github.com/perdure/perdure/internal/secrets"
)

// Prove is the input of ReleaseSignal or FailSignal to an execution: the operator's
// content, sealed or not, and the proof that a process of the installation sends it.
func Prove(keys *secrets.Keys, signal string, to *commonpb.WorkflowExecution, content *commonpb.Payload) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{content, plain(keys.Sign(statement(signal, to, content)...))}}
}

// Proven reports whether a signal to an execution is genuine, by its name and input.
type Proven func(signal string, input *commonpb.Payloads) bool

// ProvenBy accepts signals that Prove has made for the execution with one of the keys;
// without keys none.
func ProvenBy(keys *secrets.Keys, to *commonpb.WorkflowExecution) Proven {
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

// plain is an unsealed payload.
func plain(v any) *commonpb.Payload {
	data, err := json.Marshal(v)
	if err != nil {
		panic("quarantine: encoding what is always JSON: " + err.Error())
	}
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: data}
}
