package record_test

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/workflows/record"
)

// Whatever an entry is read from, it is written so that it is read again as the same, and
// can be carried.
func FuzzEntry(f *testing.F) {
	for _, kind := range full {
		data := perduretest.Must(json.Marshal(record.Entry{Order: 1, Kind: kind}))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e, again record.Entry
		if json.Unmarshal(data, &e) != nil {
			return
		}
		written, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%s cannot be written: %v", data, err)
		}
		if err := json.Unmarshal(written, &again); err != nil {
			t.Fatalf("%s cannot be read again: %v", written, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(written) {
			t.Fatalf("%s is %s when it was read again: %v", written, twice, err)
		}
		for _, reason := range []record.Reason{record.Continued, record.Resumed, record.Reset, record.Recalled} {
			e.Carry(record.Terms{Reason: reason, Script: true, Repeated: true})
			e.Carry(record.Terms{Reason: reason, Continues: true})
		}
		e.Emptied().Bytes("a")
		e.Executed("a")
		e.Unknown("a", false)
	})
}
