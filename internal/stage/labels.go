package stage

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/stage/join"
	"github.com/embedd/embedd/internal/stage/trainer"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// joinsLabels reports whether labels arrive in separate messages.
func (s *Stage) joinsLabels() bool { return s.learner != nil && s.learner.late != nil }

// errNoLabels is the error of a stage that does not join labels.
var errNoLabels = errors.New("this stage does not join labels; set Config.Labels, and no fixed model")

// DecodeLabels reads a message of labels: one with the key column and the label column of Config.Spec. Other columns
// are ignored. The error is an [*arrowio.Error].
func (s *Stage) DecodeLabels(msg []byte) (*arrowio.Message, error) {
	if !s.joinsLabels() {
		return nil, errNoLabels
	}
	m, err := s.labels.Decode(msg, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range []struct{ name, what, kind string }{{s.config.Spec.Key, "key", m.KeyKind()},
		{s.config.Spec.Label, "label", m.LabelKind()}} {
		if c.kind == "" {
			return nil, &arrowio.Error{Code: wire.MissingColumn, Column: c.name, Row: -1,
				Detail: "a message of labels without the " + c.what + " column",
				Hint: "send a column of this name with the other one, or set schema." + c.what + " to the " + c.what +
					" column that is sent"}
		}
	}
	return m, nil
}

// LearnLabels joins a message of labels with their rows by key; at is its position in the stream of labels, which is
// independent of that of rows. Rows that waited for a label are learned; rows that were learned with another label get
// the new one. Labels without key or text are counted and ignored. It may be called concurrently with Learn.
func (s *Stage) LearnLabels(m *arrowio.Message, at spec.Position) error {
	if !s.joinsLabels() {
		return errNoLabels
	}
	return s.learner.learnLabels(m, at)
}

// LabelsReached records that all labels up to the timestamp of a row were read, even if there were none: rows that can
// no longer get a label expire.
func (s *Stage) LabelsReached(t time.Time) {
	if !s.joinsLabels() {
		return
	}
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	newest := time.Unix(0, s.learner.rowTime.Newest)
	if !t.IsZero() {
		t = s.learner.rowTime.Corrected(t)
	}
	if t.After(newest) && t.After(s.config.Clock().Add(trainer.MaxClockSkew)) {
		t = newest // event time is never ahead of the clock
	}
	if !s.learner.keepReached(t) {
		s.learner.late.reached(t, s.learner)
	}
}

// LabelsAhead reports which of the two streams, rows or labels, is so far ahead that it takes half of the join's memory
// and its reader should wait for the other.
func (s *Stage) LabelsAhead() (rows, labels bool) {
	if !s.joinsLabels() {
		return false, false
	}
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	_, waiting := s.learner.late.join.Waiting()
	_, early := s.learner.late.join.Early()
	half := s.config.Labels.Bytes / 2
	return waiting > half, early > half
}

// LabelLimits returns the limits of the join with their defaults; zero if labels come with their rows.
func (s *Stage) LabelLimits() spec.Labels {
	if !s.joinsLabels() {
		return spec.Labels{}
	}
	return *s.config.Labels
}

// LabelStatus describes the join; zero if labels come with their rows.
func (s *Stage) LabelStatus() spec.LabelStatus {
	if !s.joinsLabels() {
		return spec.LabelStatus{}
	}
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	status := s.learner.late.status(s.config)
	if c := s.learner.counting; c != nil {
		status.RowsWaiting += c.rows // which the join gets once the contract is known
		status.LabelsWaiting += c.labels
	}
	return status
}

// lateLabels joins rows with labels that arrive in separate messages. The learner's lock guards it.
type lateLabels struct {
	join       *join.Join[waitingRow]
	next       uint64          // the last sequence number given to a message of labels that has none
	created    int64           // creation time of the stream of the newest row
	newest     window.Position // label
	rows       uint64          // rows with a key so far
	keyless    uint64
	skipped    uint64
	kind       string // of the newest labels
	kindChange string // a sentence if it has changed
	warned     time.Time
}

// waitingRow is a row that waits for its label.
type waitingRow struct {
	x      []float64
	source string
	rows   int // of its message
}

// collect adds the outcomes of the join to an event.
func collect(e *trainer.Event, out []join.Out[waitingRow]) {
	for _, o := range out {
		at := window.Position(o.Position)
		if o.Kind == join.Give {
			e.Rows = append(e.Rows, window.Row{Position: at, Time: o.Time.UnixNano(), Label: o.Text,
				Source: o.Payload.source, X: o.Payload.x, MessageRows: o.Payload.rows})
			e.LabelledBy = append(e.LabelledBy, window.Position(o.By))
		} else {
			e.Fixes = append(e.Fixes, trainer.Fix{At: at, Label: o.Text, Replaced: o.Kind == join.Withdraw})
		}
	}
}

// addRows adds the rows of a message to the join. Rows with a missing feature are left out unless they are imputed.
func (t *lateLabels) addRows(c *spec.Config, msg *arrowio.Message, at spec.Position, m int,
	unlabelled bool) *trainer.Event {
	e := &trainer.Event{}
	for u := range usable(c, msg, at, m) {
		r := join.Row[waitingRow]{Position: join.Position(u.at), Time: at.Time, Label: u.label, HasLabel: u.isKnown}
		if r.Key, _ = u.Key(u.row); r.Key != "" {
			t.rows++
		} else {
			t.keyless++
		}
		if r.Key == "" && !r.HasLabel && !unlabelled {
			continue // no label can ever reach it
		}
		r.Payload = waitingRow{make([]float64, m), sourceOf(c, u.Batch, u.row, at), msg.Rows()}
		copyRow(r.Payload.x, u.Features(), u.row)
		r.Size = 9*m + 16 // an eighth for the allocator's size classes
		if unlabelled && !r.HasLabel {
			e.Unlabelled = append(e.Unlabelled, r.Payload.x)
		}
		collect(e, t.join.AddRow(r))
	}
	t.created = rowPosition(at, 0).Created
	e.OldestWaiting, e.NewestLabel = t.oldest(), t.newest
	return e
}

// addLabels adds the rows of a message of labels to the join.
func (t *lateLabels) addLabels(m *arrowio.Message, at spec.Position) *trainer.Event {
	if kind := m.LabelKind(); kind != t.kind {
		if t.kind != "" {
			t.kindChange = fmt.Sprintf("labels were %s and are %s since label message %d: the text of a label names "+
				"its class, so 3 and \"3\" are one class, and true and 1 are two; send one kind", t.kind, kind, at.Seq)
		}
		t.kind = kind
	}
	e, i := &trainer.Event{OfLabels: true}, 0
	for _, b := range m.Batches() {
		for k := range b.Rows() {
			one := join.Label{Position: join.Position(rowPosition(at, i)), Time: at.Time}
			i++
			if at := window.Position(one.Position); at.Compare(t.newest) > 0 {
				t.newest = at
			}
			var labelled bool
			one.Key, _ = b.Key(k)
			if one.Text, labelled = b.Label(k); !labelled || one.Key == "" {
				t.skipped++
				continue
			}
			collect(e, t.join.AddLabel(one))
		}
	}
	e.OldestWaiting, e.NewestLabel = t.oldest(), t.newest
	return e
}

// oldest is the oldest row that waits, from which a restart reads rows; zero if none of this stream waits.
func (t *lateLabels) oldest() window.Position {
	if p, ok := t.join.Oldest(); ok && p.Created == t.created {
		return window.Position(p)
	}
	return window.Position{}
}

func (t *lateLabels) status(c *spec.Config) spec.LabelStatus {
	n := t.join.Counts()
	s := spec.LabelStatus{Joined: n.Joined, Corrected: n.Corrected, Duplicate: n.Duplicate, Late: n.Late,
		Expired: n.Expired, Repeated: n.Repeated, Skipped: t.skipped, Keyless: t.keyless, Bytes: t.join.Bytes()}
	s.RowsWaiting, _ = t.join.Waiting()
	s.LabelsWaiting, _ = t.join.Early()
	if s.Note = labelNote(&s, c.Spec.Key, *c.Labels, t.rows); s.Note == "" {
		s.Note = t.kindChange
	}
	return s
}

// labelledShare is the share of the rows that have a label, of those that arrived; of labels in separate messages that
// of the rows that do not wait for one.
func labelledShare(in *intake, late *lateLabels) float64 {
	if late == nil {
		return float64(in.rows-in.unlabelled) / float64(in.rows)
	}
	n := late.join.Counts()
	waiting, _ := late.join.Waiting()
	if left := in.rows - waiting; left > 0 {
		return 1 - float64(min(n.Expired, uint64(left)))/float64(left)
	}
	return math.NaN()
}

// labelNote explains why labels and rows are not joined, the likeliest cause first.
func labelNote(s *spec.LabelStatus, key string, limits spec.Labels, rows uint64) string {
	met := s.Joined + s.Corrected + s.Duplicate
	switch {
	case rows == 0 && s.Keyless > 0:
		return fmt.Sprintf("none of %d rows has a key, so no label can find them: send column %q with the rows, or "+
			"set schema.key to the key column that is sent", s.Keyless, key)
	case s.Repeated > 0 && 10*s.Repeated > rows:
		return fmt.Sprintf("keys repeat: %d of %d rows have the key of an earlier row and replace it; send a "+
			"different value in column %q for each row", s.Repeated, rows, key)
	case met == 0 && s.Late+uint64(s.LabelsWaiting) > 0 && s.Expired+uint64(s.RowsWaiting) > 0 && s.Late+s.Expired > 0:
		return fmt.Sprintf("%d labels arrived and none has the key of a row: rows and labels must have the same text "+
			"in column %q", s.Late+uint64(s.LabelsWaiting), key)
	case s.Late > met/10 || s.Expired > rows/10:
		return fmt.Sprintf("%d labels found no row and %d rows have no label: they wait at most %v for each other "+
			"within %d MiB, raise limits.label_wait or limits.labels, or send labels sooner",
			s.Late, s.Expired, limits.Wait, limits.Bytes>>20)
	}
	return ""
}

// warn logs why labels and rows are not joined, at most once a minute.
func (t *lateLabels) warn(l *learner) {
	now := l.config.Clock()
	if now.Sub(t.warned) < time.Minute {
		return
	}
	t.warned = now
	s := t.status(l.config)
	if s.Note == "" {
		return
	}
	l.mu.warn("some labels and rows cannot be joined", "reason", s.Note, "joined", s.Joined, "corrected", s.Corrected,
		"duplicate", s.Duplicate, "late", s.Late, "expired", s.Expired, "repeated", s.Repeated, "skipped", s.Skipped)
}

func (l *learner) learnLabels(m *arrowio.Message, at spec.Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return spec.ErrClosed
	}
	if at.Seq == 0 {
		l.late.next++
		at.Seq = l.late.next
	}
	if !at.Time.IsZero() {
		l.labelTime.StartAs(&l.rowTime.EventTime, rowPosition(at, 0), at.Time.UnixNano(), l.config.Clock().UnixNano())
	}
	at.Time = l.labelTime.of(l, at)
	if !l.keepLabels(m, at) {
		l.enqueue(l.labelEvent(m, at))
	}
	return nil
}

// labelEvent joins a message of labels. The caller holds the lock.
func (l *learner) labelEvent(m *arrowio.Message, at spec.Position) *trainer.Event {
	next := l.late.addLabels(m, at)
	l.late.warn(l)
	return next
}

// reached is Stage.LabelsReached for the join.
func (l *lateLabels) reached(t time.Time, by *learner) {
	l.join.Reached(t)
	l.warn(by)
}
