package spec

import (
	"cmp"
	"errors"
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
	// WasReset: it serves until the first model of the next epoch, which is fitted as the configuration says and needs no
	// evidence. It may have another number of outputs than configured.
	WasReset bool
	// SameAs is the first of the epochs that are recorded as one with Epoch: their outputs are comparable; 0: none.
	SameAs int
	// Undecided is the first of the epochs before, while the rows do not decide yet whether their outputs are comparable
	// with those of Epoch, and Before its first model. 0 and nil: it is decided, or there is none.
	Undecided int
	Before    *model.Model
	// Origin is the first model of the epoch, and of those recorded as one with it. The next models are compared with it;
	// nil: Model itself.
	Origin *model.Model
	// Score is the prequential accuracy with which it went live; 0: not known, as of a first model.
	Score float64
	State []byte // the newest checkpoint that Config.Store or Config.Checkpoint received, for Config.Resume
}

// Metadata returns what every output carries about its model, in headers and in the metadata of its schema, in the
// order in which it is written. Without a model it is nil.
func (l *Live) Metadata() []wire.Pair {
	if l == nil || l.Model == nil {
		return nil
	}
	pairs := []wire.Pair{
		wire.VersionPair(),
		{Key: wire.HeaderModel, Value: l.Version},
		{Key: wire.HeaderMethod, Value: l.Model.Method()},
		{Key: wire.HeaderEpoch, Value: strconv.Itoa(l.Epoch)},
	}
	if l.SameAs > 0 {
		pairs = append(pairs, wire.Pair{Key: wire.HeaderSameAs, Value: strconv.Itoa(l.SameAs)})
	}
	if note := l.First().Note(); note.Conversion != nil && int(note.Epoch) == cmp.Or(l.SameAs, l.Epoch) {
		pairs = append(pairs, wire.Pair{Key: wire.HeaderConversion, Value: note.Version})
	}
	return pairs
}

// First is the first model of the epoch, or of those recorded as one with it, as far as it is known. If the epoch
// follows another, its note has the conversion from the outputs of that one.
func (l *Live) First() *model.Model {
	if l.Origin != nil {
		return l.Origin
	}
	return l.Model
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

// Result is the output for one message. It is not safe for concurrent use while it is changed.
type Result struct {
	Live     *Live // the model that all rows were transformed with
	Reduced  arrowio.Reduced
	Rejected [][]int         // rows for the dead letters, by batch, ascending; nil if there are none
	Faults   []arrowio.Fault // what is wrong with the rejected rows, in the order in which they were rejected
	Skipped  int             // rows left out by configuration
}

// RejectedRows returns the number of rejected rows.
func (r *Result) RejectedRows() int { return len(r.Faults) }

// Reject moves a row of a batch of the message, both from 0, from the output to the rejected rows. A row that was
// rejected or skipped before, or that the batch does not have, makes Encode fail.
func (r *Result) Reject(batch, row int, fault arrowio.Fault) {
	r.drop(batch, row)
	r.Rejected = insertRow(r.Rejected, len(r.Reduced.Y), batch, row)
	r.Faults = append(r.Faults, fault)
}

// Skip removes a row, as Reject does, and counts it.
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
	Door         string // by which it was promoted; docs/models.md lists the doors
	Err          error  // why there is no candidate
}

// IsProvisional reports whether the first model that is fitted replaces it.
func (l *Live) IsProvisional() bool { return l.Bootstrap || l.WasReset }

// Release is a model that is about to go live; [Config.Store] saves it.
type Release struct {
	Model       *model.Model // its note repeats what is below, except for the accuracies
	Epoch       int
	Bootstrap   bool
	Parent      string // version of the model that it replaces, "" for the first
	AfterReset  bool   // that model was reset
	First, Last uint64 // sequence numbers of the oldest and the newest message that it was fitted on
	Rows        int    // it was fitted on
	Score       float64
	LiveScore   float64 // of the model that it replaces on the same rows; NaN if there were none, as Score is
	Why         string  // one sentence
	// Door is how it goes live: bootstrap, first, better, more_rows, new_class or following; see docs/models.md.
	Door     string
	NewEpoch bool // it is the first of its epoch: keep it as long as models of the epoch, for Live.Origin
	// SameAs and Undecided are those of Live. Keep the first models of these epochs too.
	SameAs, Undecided int
	State             []byte // the learner's checkpoint for this model; opaque, small, needed by a restart
}

// Live returns the model that is live once the release is stored as a version, for a host that stores models itself;
// previous is what was live, nil for the first model.
func (r *Release) Live(version string, previous *Live) *Live {
	l := &Live{Model: r.Model, Version: version, Epoch: r.Epoch, SameAs: r.SameAs, Undecided: r.Undecided, Seen: r.Last,
		Bootstrap: r.Bootstrap, State: r.State}
	if previous == nil {
		return l
	}
	l.Epochs = max(previous.Epochs, previous.Epoch, r.Epoch)
	switch {
	case !r.NewEpoch:
		l.Origin, l.Before = previous.First(), previous.Before
	case r.Undecided > 0:
		l.Before = previous.First()
	}
	return l
}

// The errors that a host handles, for errors.Is. What is wrong with a message is an [*arrowio.Error], whose codes
// errors.Is finds too.
var (
	// ErrNoModel is returned by Transform while no model is live.
	ErrNoModel = errors.New("no model is live yet")
	// ErrClosed is returned by methods that learn or wait after Close. The live model still transforms messages.
	ErrClosed = errors.New("the stage is closed")
	// ErrFixed is returned by methods that change the model of a stage with a fixed model.
	ErrFixed = errors.New("the stage has a fixed model and learns nothing")
	// ErrContract is returned by Transform and Learn for a message that was decoded under another contract than the
	// stage's, because that was not known yet. A host decodes the message again.
	ErrContract = errors.New("the message was decoded before the schema was known; decode it again")
	// ErrFewRows is returned by Refit when the window does not hold enough rows for a fit yet. A host learns more rows
	// and calls it again.
	ErrFewRows = errors.New("the window does not hold enough rows for a fit")
)

// ClassOutliers counts the outliers of a class among the rows in the window.
type ClassOutliers struct {
	Class    string `json:"class"`
	Rows     int    `json:"rows"`      // of the class
	SetAside int    `json:"set_aside"` // rows that enter no fit
	Limited  int    `json:"limited"`   // rows with values that enter fits as the limits of their feature
}

// Progress is how far learning is, as the status of a stage has it and a host reports it.
type Progress struct {
	Rows    int `json:"rows"`    // labelled rows in the window
	Classes int `json:"classes"` // classes of these rows
	// ClassesSeen is the number of classes that labelled rows had lately, those of the window included.
	ClassesSeen    int   `json:"classes_seen"`
	Bytes          int64 `json:"bytes"`            // memory of the window
	Needed         int   `json:"needed"`           // labelled rows that make a first model due
	Backlog        int   `json:"backlog"`          // labelled rows and corrections of labels in the queue
	Dropped        int   `json:"dropped"`          // labelled rows and corrections for which the queue was full
	OverClassLimit int   `json:"over_class_limit"` // labelled rows of classes beyond Config.Classes
	RareClassRows  int   `json:"rare_class_rows"`  // rows in the window of classes that have too few rows to enter a fit
	Outliers       int   `json:"outliers"`         // rows that were set aside and enter no fit: many values are extreme
	LimitedRows    int   `json:"limited_rows"`     // rows in the window with values that enter fits as limits
	OverQuota      int   `json:"over_quota"`       // rows that left the window because their source exceeded its Quota
	// LastOutlier is a sentence about the newest row with an extreme value.
	LastOutlier string `json:"last_outlier,omitempty"`
	// OutlierClasses are the classes in the window of which rows are set aside or limited, at most 20 with the most.
	OutlierClasses []ClassOutliers `json:"outlier_classes,omitempty"`
	Fitting        bool            `json:"fitting"`        // the worker is busy
	LabelsSuspect  bool            `json:"labels_suspect"` // no model beats chance on the newest rows; nothing goes live
	HasRuns        bool            `json:"has_runs"`       // labels come in runs, more than in a random order
	// Unusual is what is unusual about the stream, in the order of UnusualKinds.
	Unusual   []Unusual `json:"unusual,omitempty"`
	Restoring bool      `json:"restoring"` // the window is being read again after a restart
	// CandidateRows are the rows of the candidate with the most evidence, Evidence is its e-value; see Gate.
	CandidateRows int     `json:"candidate_rows"`
	Evidence      float64 `json:"evidence"`
	// Door is the door at which that candidate is tested. docs/models.md lists the doors.
	Door   string `json:"door,omitempty"`
	Clock  string `json:"clock,omitempty"` // a sentence if timestamps are ahead of this machine's clock, or went back
	Alarms int    `json:"alarms"`          // drift alarms that cut the window
	Fits   int    `json:"fits"`            // models that were fitted, candidates included
}

// Status describes the progress of learning.
type Status struct {
	Live *Live
	Progress
	Largest int // rows of the largest class
	// Received counts the rows that arrived for training, Unlabelled those of them without a label, Incomplete those
	// that are not learned because a feature is missing.
	Received, Unlabelled, Incomplete int
	Hint                             string // why there is no first model yet, or what limits learning, and the fix; or ""
	// ReadFrom is the sequence number of the oldest message that a restart must read: the window, or a row that waits
	// for its label, needs it.
	ReadFrom uint64
	Newest   time.Time // of the newest labelled row that was learned; zero: none since the start
	// Candidates are the leading candidates for the contract while it is not known, the leader first, at most eight.
	// OtherCandidates counts the messages of candidates beyond the first 64. Rows, Classes and Needed are then those of
	// the leader.
	Candidates      []ContractCandidate
	OtherCandidates int
	Counted         int // messages of all candidates
	Mismatched      int // messages that arrived before the contract was known, do not fit it, and were not learned
	// EffectiveRows is how many independent rows the rows of the window are worth: their number divided by the design
	// effect of the live model's mistakes. NaN: not known yet.
	EffectiveRows float64
	// RunRows is the mean number of rows in a row with the same label, in the window; 0: unknown.
	RunRows float64
	// LabelledShare is the share of the rows with a label, of those that arrived since the start; NaN: none arrived.
	LabelledShare float64
	Pinned        bool // the live model was pinned, and no fit replaces it
	// RowsUntilFit is how many more labelled rows make the next fit due by their number; nil: no number does.
	RowsUntilFit *int
	Limits       Limits

	// Accuracy is the prequential accuracy of the live model: the share of the last 500 to 1,000 labelled rows whose
	// class the nearest reference row in its outputs had, before the row was learned. References are the newest
	// held-out rows. Chance is the accuracy that independent labels would have. Without labels it is the share of
	// variance that the outputs keep. NaN before there is any.
	Accuracy, Chance float64
	Scored           int // rows that Accuracy was measured on
	// HeldOut is the share of held-out rows of the window that the live model had right when they last judged a candidate
	// against it, which happens where labels come in runs. NaN: they judged none.
	HeldOut   float64
	Candidate float64 // accuracy of the candidate with the most evidence
	// EvidenceRequired is the evidence at which the Door opens; +Inf if it is closed.
	EvidenceRequired float64

	Drift   float64       // largest difference of the drift detector's last check, over its limit; 0: too few rows
	LastFit time.Duration // duration of the last promotion, from the fit to the change of the live model
	Note    string        // a sentence on the last candidate that passed or failed
}

// Limits are the limits of what a stage holds, with their defaults. The zero value is that of a stage that learns
// nothing.
type Limits struct {
	WindowRows  int   // as far as WindowBytes allows
	WindowBytes int64 // of the window
	Classes     int
	LabelBytes  int64 // of rows and labels that wait for each other; 0 without late labels
}

// ContractCandidate is a contract that messages propose, while the contract of the stage is not known.
type ContractCandidate struct {
	Contract *arrowio.Contract
	Messages int    // that can be learned from
	Rows     int    // of these messages that can be learned from
	First    uint64 // sequence number of the first of these messages
}

// LabelStatus describes the join of rows with labels that arrive in separate messages.
type LabelStatus struct {
	Joined        uint64 `json:"joined"`         // labels that found their row
	Corrected     uint64 `json:"corrected"`      // labels that changed the label of a row
	Duplicate     uint64 `json:"duplicate"`      // labels of no effect: repeated, or older than the known one
	Late          uint64 `json:"late"`           // labels whose row had expired or never came
	Expired       uint64 `json:"expired"`        // rows whose label never came
	Repeated      uint64 `json:"repeated"`       // rows that replaced an earlier row of the same key
	Skipped       uint64 `json:"skipped"`        // labels without a key or a text
	Keyless       uint64 `json:"keyless"`        // rows without a key
	RowsWaiting   int    `json:"rows_waiting"`   // rows that wait for a label
	LabelsWaiting int    `json:"labels_waiting"` // labels that wait for a row
	Bytes         int64  `json:"bytes"`          // memory of rows and labels
	Note          string `json:"note,omitempty"` // a sentence if labels and rows cannot be joined; else ""
}
