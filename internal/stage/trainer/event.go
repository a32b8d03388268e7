package trainer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	// TakeOver ends standby and starts over from Adopt and its checkpoint, or from nothing; the stream is learned again
	// from where that says.
	TakeOver bool

	// For labels that arrive in separate messages:
	LabelledBy    []window.Position // by row of Rows: the position of its label; nil if rows carry their labels
	NewestLabel   window.Position   // the newest label that was read
	OfLabels      bool              // a message of labels brought the rows, in the order of its labels
	OldestWaiting window.Position   // the oldest row that waits for its label; zero: none
}

// first is the position of the first row of an event, false if it has none to learn.
func (e *Event) first() (p window.Position, ok bool) {
	rows := e.Rows
	if e.Summary != nil {
		rows = e.Summary.Rows
	}
	if len(rows) == 0 {
		return p, false
	}
	return rows[0].Position, true
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
	CountFit func()                          // counts a fit
	Report   func(spec.Outcome)              // reports the outcome of a fit
	Times    func() (rows, labels EventTime) // the event time that a checkpoint saves
	Pause    func()                          // called during long work that does not check its context
}

// QueueBytes is the part of a window's memory for rows that wait to be learned.
func QueueBytes(window int64) int64 { return window / 8 }

// EventTime turns the server's timestamps of messages into the event time that learning uses. Servers' clocks jump,
// mirrors keep the timestamps of their origin, and a restored stream keeps its own; one timestamp a year ahead would
// empty a window bounded by age. So event time never goes back, and never passes the local clock. While timestamps are
// ahead of the clock, event time continues from its last value at their pace; while they are behind event time, it
// does not advance. If the clock is behind event time too, both clocks were set back: event time continues at their
// pace, until timestamps have reached it.
//
// The corrections are part of a checkpoint, so that messages have the same event time after a restart. They are those
// of one stream and of newer ones: for an older copy that was restored event time starts over.
type EventTime struct {
	Corrections []Correction    `json:"turns,omitempty"` // oldest first, at most maxCorrections
	Until       window.Position `json:"until"`           // messages up to here have their event time
	Newest      int64           `json:"newest"`          // the newest event time
	ahead       bool            // the newest timestamp is ahead of the clock
}

// Correction says how timestamps are corrected from one message on.
type Correction struct {
	From     window.Position `json:"from"`
	Ahead    int64           `json:"ahead,omitempty"` // subtracted from timestamps; negative if clocks were set back
	Constant int64           `json:"stand,omitempty"` // event time for all timestamps, if not 0
}

const (
	// MaxClockSkew is the maximum difference between the clocks of a server and this machine that is not corrected.
	MaxClockSkew = time.Minute
	// maxCorrections bounds the size of a checkpoint.
	maxCorrections = 64
)

func (s *EventTime) last() Correction {
	if n := len(s.Corrections); n > 0 {
		return s.Corrections[n-1]
	}
	return Correction{}
}

func (t Correction) apply(stamp int64) int64 {
	if t.Constant != 0 {
		return t.Constant
	}
	return stamp - t.Ahead
}

// At returns the event time of a message; now is the local time. changed reports that the correction changes with this
// message.
func (s *EventTime) At(p window.Position, stamp, now int64) (at int64, changed bool) {
	if p.Created < s.Until.Created {
		*s = EventTime{}
	}
	if p.Compare(s.Until) <= 0 {
		i, _ := slices.BinarySearchFunc(s.Corrections, p, func(t Correction, p window.Position) int {
			if t.From.Compare(p) <= 0 {
				return -1
			}
			return 1
		})
		if i == 0 {
			return stamp, false
		}
		return s.Corrections[i-1].apply(stamp), false
	}
	s.Until = p
	s.Newest = cmp.Or(s.Newest, min(stamp, now))
	t := s.last()
	low, high := s.Newest-int64(MaxClockSkew), max(s.Newest, now, now-t.Ahead)+int64(MaxClockSkew)
	at = t.apply(stamp) // if both explanations are possible, the shorter step counts: clocks may have been set right
	s.ahead = stamp > now+int64(MaxClockSkew)
	switch {
	case t.Ahead != 0 && low <= at && at <= high && (t.Ahead > 0 || stamp < low):
	case low <= stamp && stamp <= high:
		t = Correction{}
		at = stamp
	case stamp < low && s.Newest <= now+int64(MaxClockSkew): // else the clocks of both machines were set back
		t = Correction{Constant: s.Newest}
		at = s.Newest
	default:
		t = Correction{Ahead: stamp - s.Newest}
		at = s.Newest
	}
	if before := s.last(); t.Ahead != before.Ahead || (t.Constant != 0) != (before.Constant != 0) {
		t.From, changed = p, true
		if len(s.Corrections) == maxCorrections {
			s.Corrections = slices.Delete(s.Corrections, 0, 1)
		}
		s.Corrections = append(s.Corrections, t)
	}
	s.Newest = max(s.Newest, at)
	return at, changed
}

// StartAs makes the correction of other that of the first message, if that makes its event time possible. Messages of
// two streams are compared by their event times, and the clock may have been set since other was first corrected.
func (s *EventTime) StartAs(other *EventTime, p window.Position, stamp, now int64) {
	t := Correction{From: p, Ahead: other.last().Ahead}
	at := t.apply(stamp)
	isStep := t.Ahead > 0 || stamp < other.Newest-int64(MaxClockSkew) // else other gives up its correction, see At
	if s.Newest == 0 && t.Ahead != 0 && isStep && at <= max(other.Newest, now, now-t.Ahead)+int64(MaxClockSkew) {
		s.Corrections, s.Newest = []Correction{t}, at
	}
}

// Corrected returns the event time of a timestamp by the current correction.
func (s *EventTime) Corrected(stamp time.Time) time.Time {
	return time.Unix(0, s.last().apply(stamp.UnixNano()))
}

// Timestamp returns the timestamp of an event time by the current correction. While timestamps are ahead of the clock,
// it returns the event time itself.
func (s *EventTime) Timestamp(at time.Time) time.Time {
	if s.ahead {
		return at
	}
	return at.Add(time.Duration(s.last().Ahead))
}

// Copy returns a copy for a checkpoint.
func (s *EventTime) Copy() EventTime {
	return EventTime{slices.Clone(s.Corrections), s.Until, s.Newest, s.ahead}
}

// Note says how timestamps are corrected now, "" if they are not. what names the messages.
func (s *EventTime) Note(what string) string {
	switch t := s.last(); {
	case t.Ahead > 0 && s.ahead:
		return fmt.Sprintf("%s from message %d on have timestamps %v ahead of this machine's clock; learning "+
			"continues from the time before: correct the clock of the server, or of this machine",
			what, t.From.Seq, time.Duration(t.Ahead).Round(time.Second))
	case t.Constant != 0:
		return fmt.Sprintf("%s from message %d on have timestamps before %s, the time of an earlier message; training "+
			"uses that time until they have caught up: correct the clock of the server",
			what, t.From.Seq, time.Unix(0, t.Constant).UTC().Format(time.RFC3339))
	}
	return ""
}
