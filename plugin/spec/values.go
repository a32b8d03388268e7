package spec

import (
	"strconv"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model"
)

// Live is a model that transforms messages, with what outputs say about it. It is immutable.
type Live struct {
	Model     *model.Model
	Version   string // its name in the store, or the first 16 hexadecimal digits of its digest
	Epoch     int    // outputs of models of one epoch are comparable; from 1
	Epochs    int    // the highest epoch so far, if an earlier model was chosen again; 0: Epoch
	Seen      uint64 // sequence number of the last message that its fit saw; 0 if nothing was fitted
	Bootstrap bool   // it is the PCA that serves until a first model exists; any model replaces it
	// Origin is the first model of the epoch. The next models are compared with it; nil: Model itself.
	Origin *model.Model
	State  []byte // the newest checkpoint that Config.Store or Config.Checkpoint received, for Config.Resume
}

// Metadata returns what every output says about its model, in headers and in the metadata of its schema, in the order
// in which it is written.
func (l *Live) Metadata() []wire.Pair {
	return []wire.Pair{
		wire.VersionPair(),
		{Key: wire.HeaderModel, Value: l.Version},
		{Key: wire.HeaderMethod, Value: l.Model.Method()},
		{Key: wire.HeaderEpoch, Value: strconv.Itoa(l.Epoch)},
	}
}

// Position is the position of a message in its stream. Created is the creation time of the stream: a stream that was
// deleted and created again is another one, and its messages come after those of the first. Seq is the sequence number,
// from 1; Time is the server's timestamp. A host without a stream leaves both zero: messages are then numbered as they
// come, and stamped with the local clock.
type Position struct {
	Created time.Time
	Seq     uint64
	Time    time.Time
	Source  string // the sender if the host knows it, such as a subject
}

// Result is the output for one message.
type Result struct {
	Live     *Live // the model that all rows were transformed with
	Reduced  arrowio.Reduced
	Rejected [][]int         // rows for the dead letters, by batch, ascending; nil if there are none
	Faults   []arrowio.Fault // what is wrong with the rejected rows, in their order
	Skipped  int             // rows left out by configuration
}

// RejectedRows returns the number of rejected rows.
func (r *Result) RejectedRows() int { return len(r.Faults) }

// Reject moves a row from the output to the rejected rows.
func (r *Result) Reject(batch, row int, fault arrowio.Fault) {
	r.drop(batch, row)
	r.Rejected = insertRow(r.Rejected, len(r.Reduced.Y), batch, row)
	r.Faults = append(r.Faults, fault)
}

// Skip removes a row from the output and counts it.
func (r *Result) Skip(batch, row int) {
	r.drop(batch, row)
	r.Skipped++
}

func (r *Result) drop(batch, row int) {
	r.Reduced.Drop = insertRow(r.Reduced.Drop, len(r.Reduced.Y), batch, row)
}

// insertRow adds a row to the sorted rows of one batch.
func insertRow(rows [][]int, batches, batch, row int) [][]int {
	if rows == nil {
		rows = make([][]int, batches)
	}
	at := len(rows[batch])
	for at > 0 && rows[batch][at-1] > row {
		at--
	}
	rows[batch] = append(rows[batch], 0)
	copy(rows[batch][at+1:], rows[batch][at:])
	rows[batch][at] = row
	return rows
}

// Outcome is the outcome of a fit: a candidate went live, or all were rejected and the live model was kept, or none
// could be fitted. [Config.Observe] receives it.
type Outcome struct {
	Live         *Live // the live model afterwards
	Promoted     bool
	Candidate    float64 // accuracy on the rows that it was scored on, NaN if there were none
	Previous     float64 // of the model that was live on the same rows, NaN if there was none
	Displacement float64 // how far outputs have moved relative to their spread, after alignment
	Rows         int     // that it was fitted on
	Duration     time.Duration
	Reason       string
	Err          error // why there is no candidate
}

// Release is a model that is about to go live; [Config.Store] saves it.
type Release struct {
	Model       *model.Model // its note repeats what is below, except for the accuracies
	Epoch       int
	Bootstrap   bool
	Parent      string // version of the model that it replaces, "" for the first
	First, Last uint64 // sequence numbers of the oldest and the newest message that it was fitted on
	Rows        int    // it was fitted on
	Score       float64
	LiveScore   float64 // of the model that it replaces on the same rows; NaN if there were none, as Score is
	Why         string  // one sentence
	NewEpoch    bool    // it is the first of its epoch: keep it as long as models of the epoch, for Live.Origin
	State       []byte  // the learner's checkpoint for this model; opaque, small, needed by a restart
}
