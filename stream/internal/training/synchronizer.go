package training

import (
	"context"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
)

// synchronizer keeps the reader of rows and the reader of labels in the order of the server's timestamps. A restart
// then learns rows and labels in the order in which they arrived, and neither reader is further ahead of the other than
// the buffer holds. A reader at the end of its stream does not delay the other.
type synchronizer struct {
	mu               sync.Mutex
	rows             progress
	labels           progress
	lastRow          uint64    // sequence number of the newest row that was learned
	hasReadAllLabels bool      // all labels that were stored are read
	noRowAt          time.Time // when the server last had no newer row
}

// progress is the progress of one of the two readers.
type progress struct {
	reached time.Time     // timestamp of the newest message; later ones are not older
	movedAt time.Time     // when that was, by the local clock
	wake    chan struct{} // nil until the other reader waits
}

// stallTimeout is how long one reader waits for another that does not move, and pollInterval how often it checks.
const (
	stallTimeout = 10 * time.Second
	pollInterval = 100 * time.Millisecond
)

func (p *progress) moveTo(t time.Time) {
	if t.After(p.reached) {
		p.reached = t
	}
	p.movedAt = time.Now()
	natsx.Signal(p.wake)
}

// moveLabels records up to which time labels are read, and whether that is the end of their stream.
func (s *synchronizer) moveLabels(t time.Time, isEnd bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasReadAllLabels = isEnd
	s.labels.moveTo(t)
}

func (s *synchronizer) rowsTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows.reached
}

// await waits for the other reader to move, at most for pollInterval. It returns false when ctx is done.
func (s *synchronizer) await(ctx context.Context, other *progress) bool {
	s.mu.Lock()
	if other.wake == nil {
		other.wake = make(chan struct{}, 1)
	}
	wake := other.wake
	s.mu.Unlock()
	again := time.NewTimer(pollInterval)
	defer again.Stop()
	select {
	case <-wake:
	case <-again.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// awaitLabels makes the reader of rows wait for stored labels that are older than a row.
func (l *labelReader) awaitLabels(ctx context.Context, row *Message) {
	s := &l.sync
	s.mu.Lock()
	s.rows.moveTo(row.Time)
	s.mu.Unlock()
	for {
		isFarAhead, _ := l.Running.LabelsAhead()
		s.mu.Lock()
		isAhead := !s.hasReadAllLabels && s.labels.reached.Before(row.Time) && l.stream != ""
		mustWait := isAhead && (isFarAhead || time.Since(s.labels.movedAt) < stallTimeout)
		s.mu.Unlock()
		if !mustWait || !s.await(ctx, &s.labels) {
			return
		}
	}
}

// rowLearned moves the position of the rows to a message that was learned.
func (l *labelReader) rowLearned(row *Message) {
	s := &l.sync
	s.mu.Lock()
	s.lastRow = row.Origin.Seq
	s.rows.moveTo(row.Time)
	s.mu.Unlock()
}

// awaitRows makes the reader of labels wait for stored rows that are not newer than a label.
func (l *labelReader) awaitRows(ctx context.Context, t time.Time) {
	s := &l.sync
	s.mu.Lock()
	s.labels.moveTo(t)
	s.mu.Unlock()
	for {
		_, isFarAhead := l.Running.LabelsAhead()
		s.mu.Lock()
		isAhead, last := !s.rows.reached.After(t), s.lastRow
		mustWait := isAhead && (isFarAhead || time.Since(s.rows.movedAt) < stallTimeout) &&
			time.Since(s.noRowAt) > pollInterval
		s.mu.Unlock()
		if !mustWait {
			return
		}
		if l.noRowAfter(ctx, last) {
			s.mu.Lock()
			s.noRowAt = time.Now()
			s.mu.Unlock()
			return
		}
		if !s.await(ctx, &s.rows) {
			return
		}
	}
}

// noRowAfter reports whether no row is stored after a sequence number.
func (l *labelReader) noRowAfter(ctx context.Context, seq uint64) bool {
	for _, filter := range needs.Filters(&l.Pipeline) {
		if last, err := natsx.LastMessage(ctx, l.Input, filter); err != nil || last != nil && last.Sequence > seq {
			return false
		}
	}
	return true
}
