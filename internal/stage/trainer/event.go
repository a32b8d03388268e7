package trainer

import (
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// Event is an item of the learner's queue: the rows of a message, or a request.
type Event struct {
	Rows       []window.Row // labelled rows, or all rows if no labels are learned from
	Fixes      []Fix        // to rows that were learned before
	Unlabelled [][]float64  // rows without a label, for the bootstrap PCA
	Bytes      int64        // memory of the rows

	Summary *window.Summary // of a block, instead of its rows

	Refit   bool       // fit candidates now
	Adopt   *spec.Live // make this model live
	Pinned  bool       // with Adopt: no other model replaces it
	Standby *bool      // stop or start fitting

	// For labels that arrive in separate messages:
	LabelledBy    []window.Position // by row of Rows: the position of its label; nil if rows carry their labels
	NewestLabel   window.Position   // the newest label that was read
	OldestWaiting window.Position   // the oldest row that waits for its label; zero: none
}

// Fix is a change to a row that was learned: it has another label, or another row of its key has replaced it.
type Fix struct {
	At       window.Position
	Label    string
	Replaced bool
}

// Host is what a Trainer needs of the stage that it runs in. No function may be nil.
type Host struct {
	Live     func() *spec.Live               // the model that is live
	Promote  func(*spec.Live)                // makes a model live
	Features func() []string                 // names of the features, in order
	Fitted   func()                          // counts a fit
	Report   func(spec.Outcome)              // reports the outcome of a fit
	Times    func() (rows, labels EventTime) // the event time that a checkpoint saves
	Pause    func()                          // called during long work that does not check its context
}

// QueueBytes is the part of a window's memory for rows that wait to be learned.
func QueueBytes(window int64) int64 { return window / 8 }
