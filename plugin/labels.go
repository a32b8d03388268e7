package plugin

import (
	"fmt"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/plugin/join"
	"github.com/embedd/embedd/plugin/window"
)

// Labels says how rows wait for labels that come apart from them, and labels for rows; see package join for the rules.
type Labels struct {
	Wait  time.Duration // most time between a row and its label, by the times of their messages; default 24 h
	Bytes int64         // bytes that rows and labels may take while they wait; default 256 MiB
}

func (l Labels) withDefaults(s arrowio.Spec) (*Labels, error) {
	set(&l.Wait, 24*time.Hour)
	set(&l.Bytes, 256<<20)
	if s.Key == "" || s.Label == "" {
		return nil, fmt.Errorf("labels that come apart from their rows are joined by key: key column %q and label column %q must both be named",
			s.Key, s.Label)
	}
	if l.Wait < 0 || l.Bytes < 0 {
		return nil, fmt.Errorf("labels are waited for %v within %d bytes; neither can be negative", l.Wait, l.Bytes)
	}
	return &l, nil
}

// LabelStatus is how the join of rows and labels stands.
type LabelStatus struct {
	join.Counts
	Skipped uint64 // labels without a key or a text: they say nothing
	Keyless uint64 // rows without a key: only a label of their own counts
	Rows    int    // rows that wait for a label
	Early   int    // labels that wait for a row
	Bytes   int64  // that all of it takes
	Note    string // a sentence where labels and rows do not meet; else ""
}

// DecodeLabels reads a message of labels: one with the key column and the label column of the stage's Spec; others are
// not looked at. An error is an [*arrowio.Error].
func (s *Stage) DecodeLabels(msg []byte) (*arrowio.Message, error) {
	if s.learner == nil || s.learner.late == nil {
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
				Hint: "send a column of this name beside the other, or name the " + c.what +
					" column that is sent as schema." + c.what}
		}
	}
	return m, nil
}

// errNoLabels is for hosts that give labels to a stage that was not told to expect any.
var errNoLabels = fmt.Errorf("this stage does not join labels; set Config.Labels, and no fixed model")

// LearnLabels takes labels that came apart from their rows: of each row of the message its key and its label. at is the
// message's place in the stream of labels, which counts for itself. Rows that waited for them are learned from, rows
// that were learned with another label get the new one. A row without key or label says nothing and is counted. It may
// be called while Learn is; labels come in the order of their stream.
func (s *Stage) LearnLabels(m *arrowio.Message, at Position) error {
	if s.learner == nil || s.learner.late == nil {
		return errNoLabels
	}
	return s.learner.learnLabels(m, at)
}

// LabelsReached says that all labels up to a time were read, though none came of late: rows that can get none any more
// need not wait.
func (s *Stage) LabelsReached(t time.Time) {
	if s.learner == nil || s.learner.late == nil {
		return
	}
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	if newest := time.Unix(0, s.learner.stamps.Newest); t.After(newest) && t.After(s.config.Clock().Add(clocksApart)) {
		t = newest // a time ahead of the clock is not what learning counts by
	}
	s.learner.late.join.Reached(t)
	s.learner.late.tell(s.learner)
}

// LabelsAhead tells which of two streams that are read from the past should wait for the other, because what waits for
// it takes half of the buffer: the rows, or the labels.
func (s *Stage) LabelsAhead() (rows, labels bool) {
	if s.learner == nil || s.learner.late == nil {
		return false, false
	}
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	_, waiting := s.learner.late.join.Waiting()
	_, early := s.learner.late.join.Early()
	half := s.config.Labels.Bytes / 2
	return waiting > half, early > half
}

// LabelLimits is how long and in how much memory rows and labels wait for one another; zero where they do not.
func (s *Stage) LabelLimits() Labels {
	if s.learner == nil || s.learner.late == nil {
		return Labels{}
	}
	return *s.config.Labels
}

// LabelStatus tells how the join stands; zero where there is none.
func (s *Stage) LabelStatus() LabelStatus {
	if s.learner == nil || s.learner.late == nil {
		return LabelStatus{}
	}
	s.learner.mu.Lock()
	defer s.learner.mu.Unlock()
	return s.learner.late.status(s.config.Spec.Key, *s.config.Labels)
}

// late joins the rows of a learner with labels that come apart from them. The learner's lock guards it.
type late struct {
	join    *join.Join[features]
	next    uint64          // counts messages of labels for hosts that give no sequence
	created int64           // of the stream of the newest row
	newest  window.Position // label
	rows    uint64          // rows with a key so far
	keyless uint64
	skipped uint64
	kind    string    // of the labels so far
	changed string    // a sentence where they became of another kind
	told    time.Time // when a warning was logged last
}

// features are what a row waits with: those, and who sent them.
type features struct {
	x      []float64
	source string
}

func newLate(l *Labels) *late {
	return &late{join: join.New[features](join.Limits{Wait: l.Wait, Bytes: l.Bytes})}
}

// fix is a change to a row that was learned: its label is another, or another row of its key has replaced it.
type fix struct {
	at       window.Position
	label    string
	replaced bool
}

// take puts what the join says into a lesson.
func (l *lesson) take(out []join.Out[features]) {
	for _, o := range out {
		at := window.Position(o.Place)
		if o.Kind == join.Give {
			l.rows = append(l.rows, window.Row{Position: at, Time: o.Time.UnixNano(), Label: o.Text,
				Source: o.Payload.source, X: o.Payload.x})
			l.by = append(l.by, window.Position(o.By))
		} else {
			l.fixes = append(l.fixes, fix{at, o.Text, o.Kind == join.Withdraw})
		}
	}
}

// rowsOf gives the rows of a message to the join. Rows with a missing feature are left out unless they are imputed: the
// hot path gives no output for them either.
func (t *late) rowsOf(c *Config, msg *arrowio.Message, at Position, m int, unlabelled bool) *lesson {
	l, i := &lesson{}, 0
	for _, b := range msg.Batches() {
		if width(b) != m {
			i += b.Rows() // lists of which no row has said how long they are
			continue
		}
		faults := b.Faults()
		for k := range b.Rows() {
			faulty := len(faults) > 0 && faults[0].Row == k
			if faulty {
				faults = faults[1:]
			}
			r := join.Row[features]{Place: join.Place(at.row(i)), Time: at.Time}
			i++
			if faulty && c.Nulls != NullsImpute {
				continue
			}
			r.Label, r.Has = b.Label(k)
			if r.Key, _ = b.Key(k); r.Key != "" {
				t.rows++
			} else {
				t.keyless++
			}
			if r.Key == "" && !r.Has && !unlabelled {
				continue // nothing will ever say what it is
			}
			r.Payload = features{make([]float64, m), c.sourceOf(b, k, at)}
			gather(r.Payload.x, b.Features(), k)
			r.Size = 9*m + 16 // an eighth for the allocator's size classes
			if unlabelled && !r.Has {
				l.other = append(l.other, r.Payload.x)
			}
			l.take(t.join.Row(r))
		}
	}
	t.created = at.row(0).Created
	l.waits, l.labels = t.oldest(), t.newest
	return l
}

// labelsOf gives the rows of a message of labels to the join.
func (t *late) labelsOf(m *arrowio.Message, at Position) *lesson {
	if kind := m.LabelKind(); kind != t.kind {
		if t.kind != "" {
			t.changed = fmt.Sprintf("labels were %s and are %s since message %d of theirs: the text of a label names its class, so 3 and \"3\" are one, and true and 1 are two; send one kind",
				t.kind, kind, at.Seq)
		}
		t.kind = kind
	}
	l, i := &lesson{}, 0
	for _, b := range m.Batches() {
		for k := range b.Rows() {
			one := join.Label{Place: join.Place(at.row(i)), Time: at.Time}
			i++
			if at := window.Position(one.Place); at.Compare(t.newest) > 0 {
				t.newest = at
			}
			var labelled bool
			one.Key, _ = b.Key(k)
			if one.Text, labelled = b.Label(k); !labelled || one.Key == "" {
				t.skipped++
				continue
			}
			l.take(t.join.Label(one))
		}
	}
	l.waits, l.labels = t.oldest(), t.newest
	return l
}

// oldest is the oldest row that waits, zero where none of this stream does: a restart reads rows from there.
func (t *late) oldest() window.Position {
	if p, ok := t.join.Oldest(); ok && p.Created == t.created {
		return window.Position(p)
	}
	return window.Position{}
}

func (t *late) status(key string, limits Labels) LabelStatus {
	s := LabelStatus{Counts: t.join.Counts(), Skipped: t.skipped, Keyless: t.keyless, Bytes: t.join.Bytes()}
	s.Rows, _ = t.join.Waiting()
	s.Early, _ = t.join.Early()
	if s.Note = s.note(key, limits, t.rows); s.Note == "" {
		s.Note = t.changed
	}
	return s
}

// note says what keeps labels and rows from meeting, the likeliest cause first.
func (s *LabelStatus) note(key string, limits Labels, rows uint64) string {
	met := s.Joined + s.Corrected + s.Duplicate
	switch {
	case rows == 0 && s.Keyless > 0:
		return fmt.Sprintf("none of %d rows has a key, so no label can find them: send column %q with the rows, or name the one that is sent as schema.key",
			s.Keyless, key)
	case s.Repeated > 0 && 10*s.Repeated > rows:
		return fmt.Sprintf("keys repeat: %d of %d rows have the key of an earlier row and replace it; let column %q be different for each row",
			s.Repeated, rows, key)
	case met == 0 && s.Late+uint64(s.Early) > 0 && s.Expired+uint64(s.Rows) > 0 && s.Late+s.Expired > 0:
		return fmt.Sprintf("%d labels came and none has the key of a row: rows and labels must have the same text in column %q",
			s.Late+uint64(s.Early), key)
	case s.Late > met/10 || s.Expired > rows/10:
		return fmt.Sprintf("%d labels found no row and %d rows got no label: they wait at most %v for each other within %d MiB, raise limits.label_wait or limits.labels, or send labels sooner",
			s.Late, s.Expired, limits.Wait, limits.Bytes>>20)
	}
	return ""
}

// tell logs what is wrong with the labels: when that changes, and then once in a while.
func (t *late) tell(l *learner) {
	now := l.config.Clock()
	if now.Sub(t.told) < time.Minute {
		return
	}
	t.told = now
	s := t.status(l.config.Spec.Key, *l.config.Labels)
	if s.Note == "" {
		return
	}
	l.config.Logger.Warn("labels and rows do not all meet", "reason", s.Note, "joined", s.Joined, "corrected",
		s.Corrected,
		"duplicate", s.Duplicate, "late", s.Late, "expired", s.Expired, "repeated", s.Repeated, "skipped", s.Skipped)
}

func (l *learner) learnLabels(m *arrowio.Message, at Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if at.Seq == 0 {
		l.late.next++
		at.Seq = l.late.next
	}
	at.Time = l.timeOf(&l.answers, at, "labels")
	next := l.late.labelsOf(m, at)
	l.late.tell(l)
	l.enqueue(next)
	return nil
}

// refill puts the rows of a lesson that were learned before a restart into the window, and returns the rest. Their
// labels may come back after rows that are new; no model is judged by them again.
func (t *trainer) refill(l *lesson) []window.Row {
	if l.by == nil || t.learned.Seq == 0 {
		return l.rows
	}
	rest := l.rows[:0]
	for i, r := range l.rows {
		if r.Compare(t.learned) > 0 || l.by[i].Compare(t.joined) > 0 {
			rest = append(rest, r)
			continue
		}
		if t.window.Add(r) == window.Taken && t.resume == nil {
			t.refer(r.Position)
		}
	}
	return rest
}

// mend changes rows that were learned, in the window and among the references. What was scored before stays.
func (t *trainer) mend(fixes []fix) {
	for _, f := range fixes {
		if t.window == nil {
			return
		}
		if f.replaced {
			t.window.Remove(f.at)
		} else if !t.window.Relabel(f.at, f.label) {
			continue
		}
		t.references.follow(t.window)
		t.refer(f.at)
	}
}

// readFrom is the message from which a restart reads again: that of the oldest row in the window, or of one before
// that waits for its label.
func (t *trainer) readFrom() window.Position {
	oldest, any := t.window.Oldest()
	if t.waits.Seq > 0 && (!any || t.waits.Created == oldest.Created && t.waits.Compare(oldest) < 0) {
		return t.waits
	}
	return oldest
}
