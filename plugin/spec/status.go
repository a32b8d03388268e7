package spec

import (
	"time"

	"github.com/embedd/embedd/arrowio"
)

// Status describes the progress of learning.
type Status struct {
	Live    *Live
	Rows    int   // labelled rows in the window
	Classes int   // classes of these rows
	Largest int   // rows of the largest class
	Bytes   int64 // memory of the window
	Needed  int   // labelled rows that make a first model due
	// Received counts the rows that arrived for training, Unlabelled those of them without a label, Incomplete those
	// that are not learned because a feature is missing.
	Received, Unlabelled, Incomplete int
	Hint                             string // why there is no first model yet, or what limits learning, and the fix; or ""
	Backlog                          int    // labelled rows in the queue
	Dropped                          int    // labelled rows that were not learned because the queue was full
	OverClassLimit                   int    // labelled rows of classes beyond Config.Classes, which are not learned
	RareClassRows                    int    // rows in the window of classes that have too few rows to enter a fit
	OverQuota                        int    // rows that left the window because their source exceeded its Quota
	Outliers                         int    // outlier rows, which enter no fit: a feature is too far from its usual range
	LastOutlier                      string // a sentence about the newest outlier
	// ReadFrom is the sequence number of the oldest message that a restart must read: the window, or a row that waits
	// for its label, needs it.
	ReadFrom uint64
	Newest   time.Time // of the newest labelled row that the live model was scored on; zero: none since the start
	// Candidates are the leading candidates for the contract while it is not known, the leader first, at most eight.
	// OtherCandidates counts the messages of candidates beyond the first 64. Rows, Classes and Needed are then those of
	// the leader.
	Candidates      []ContractCandidate
	OtherCandidates int
	Counted         int    // messages of all candidates
	Mismatched      int    // messages that arrived before the contract was known, do not fit it, and were not learned
	Clock           string // a sentence if timestamps are ahead of this machine's clock, or went back
	Fitting         bool   // the worker is busy
	Restoring       bool   // the window is being read again after a restart
	Pinned          bool   // the live model was pinned, and no fit replaces it

	// Accuracy is the prequential accuracy of the live model: the share of the last 500 to 1,000 labelled rows whose
	// class the nearest reference row in its outputs had, before the row was learned. References are the newest
	// held-out rows. Chance is the accuracy that independent labels would have. Without labels it is the share of
	// variance that the outputs keep. NaN before there is any.
	Accuracy, Chance float64
	// Candidate is the accuracy of the best candidate, Evidence its e-value; see Gate.
	Candidate     float64
	CandidateRows int
	Evidence      float64

	Alarms  int           // drift alarms that cut the window
	Fits    int           // models that were fitted, candidates included
	LastFit time.Duration // duration of the last promotion, from the fit to the change of the live model
	Note    string        // a sentence on the last candidate that passed or failed
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
	Joined        uint64 // labels that found their row
	Corrected     uint64 // labels that changed the label of a row
	Duplicate     uint64 // labels that repeated what was known, or came after one of a later position
	Late          uint64 // labels whose row had expired or never came
	Expired       uint64 // rows whose label never came
	Repeated      uint64 // rows that replaced an earlier row of the same key
	Skipped       uint64 // labels without a key or a text
	Keyless       uint64 // rows without a key
	RowsWaiting   int    // rows that wait for a label
	LabelsWaiting int    // labels that wait for a row
	Bytes         int64  // memory of rows and labels
	Note          string // a sentence if labels and rows cannot be joined; else ""
}
