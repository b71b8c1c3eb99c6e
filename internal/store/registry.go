package store

import (
	"context"
	"time"
)

// A Version is a published version of a definition. Only Deprecated ever changes.
type Version struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`        // semantic
	Digest  string    `json:"digest"`         // sha256:… of Source
	Source  string    `json:"source"`         // the definition as canonical JSON, exactly
	Lock    string    `json:"lock,omitempty"` // the tools that it uses, as they were; JSON
	By      string    `json:"by"`             // who published it
	At      time.Time `json:"at"`             // when
	// Deprecated says why the version must not be used. "" = it is not deprecated.
	Deprecated string `json:"deprecated,omitempty"`
}

// An Action is one on a version.
type Action string

// The actions.
const (
	Published  Action = "published"
	Deprecated Action = "deprecated"
	Restored   Action = "restored" // no longer deprecated
)

// An Edit is an action on a version. For an action other than Published, only name,
// version and Deprecated count.
type Edit struct {
	Action  Action
	Version Version // By and At are set by the store
	Note    string  // for the history; "" = none
}

// An Event is an entry of the history: who did what, when.
type Event struct {
	Seq     int64     `json:"seq"` // orders the entries
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Action  Action    `json:"action"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Digest  string    `json:"digest"`
	Note    string    `json:"note,omitempty"`
}

// A Mark names an entry of the history, as what is known up to it. Zero = nothing is.
type Mark struct {
	Seq int64
	At  time.Time
}

// News are what has changed after a mark.
type News struct {
	Versions []Version // by name and in the order of publication
	Last     Mark      // the last entry
	// Anew reports that Versions has every version, since the history lacks the entry of
	// the mark: it was restored from an earlier backup.
	Anew bool
}

// A Registry keeps publications and their history. It is safe for concurrent use, by
// any number of processes that share the store.
type Registry interface {
	// Versions gives what has changed after a mark.
	Versions(ctx context.Context, after Mark) (News, error)
	// Edit makes all edits that f gives, or none, in the name of by. f gets the result
	// of Versions, and no other Edit begins until this one has ended. If f fails,
	// nothing changes, and its error is returned.
	Edit(ctx context.Context, by string, after Mark, f func(News) ([]Edit, error)) error
	// History gives the last entries about a name, "" = all, the newest first.
	History(ctx context.Context, name string, limit int) ([]Event, error)
	// Follow calls f once, and again whenever something may have changed, until ctx
	// ends.
	Follow(ctx context.Context, f func())
}
