package training

import (
	"context"
	"sync"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/scope"
)

// synchronizer keeps the reader of rows and the reader of labels in the order of the server's timestamps. A restart
// then learns rows and labels in the order in which they arrived, and neither reader is further ahead of the other than
// the buffer holds. A reader at the end of its stream does not delay the other.
type synchronizer struct {
	mu      sync.Mutex
	rows    progress
	labels  progress
	lastRow uint64    // sequence number of the newest row that was learned
	atEnd   bool      // all labels that were stored are read
	asked   time.Time // when the server last had no newer row
}

// progress is the progress of one of the two readers.
type progress struct {
	reached time.Time     // timestamp of the newest message; later ones are not older
	moved   time.Time     // when that was, by the local clock
	wake    chan struct{} // nil until the other reader waits
}

// stallTimeout is how long one reader waits for another that does not move, and pollInterval how often it checks.
const (
	stallTimeout = 10 * time.Second
	pollInterval = 100 * time.Millisecond
)

func (s *progress) moveTo(t time.Time) {
	if t.After(s.reached) {
		s.reached = t
	}
	s.moved = time.Now()
	scope.Signal(s.wake)
}

// labelsAt records up to which time labels are read, and whether that is the end of their stream.
func (p *synchronizer) labelsAt(t time.Time, atEnd bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.atEnd = atEnd
	p.labels.moveTo(t)
}

func (p *synchronizer) rowsTime() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows.reached
}

// await waits for the other reader to move, at most for pollInterval. It returns false when ctx is done.
func (p *synchronizer) await(ctx context.Context, other *progress) bool {
	p.mu.Lock()
	if other.wake == nil {
		other.wake = make(chan struct{}, 1)
	}
	wake := other.wake
	p.mu.Unlock()
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
	g := &l.sync
	g.mu.Lock()
	g.rows.moveTo(row.Time)
	g.mu.Unlock()
	for {
		rows, _ := l.Running.LabelsAhead()
		g.mu.Lock()
		behind := !g.atEnd && g.labels.reached.Before(row.Time) && l.stream != ""
		wait := behind && (rows || time.Since(g.labels.moved) < stallTimeout)
		g.mu.Unlock()
		if !wait || !g.await(ctx, &g.labels) {
			return
		}
	}
}

// rowLearned moves the position of the rows to a message that was learned.
func (l *labelReader) rowLearned(row *Message) {
	g := &l.sync
	g.mu.Lock()
	g.lastRow = row.Origin.Seq
	g.rows.moveTo(row.Time)
	g.mu.Unlock()
}

// awaitRows makes the reader of labels wait for stored rows that are not newer than a label.
func (l *labelReader) awaitRows(ctx context.Context, t time.Time) {
	g := &l.sync
	g.mu.Lock()
	g.labels.moveTo(t)
	g.mu.Unlock()
	for {
		_, labels := l.Running.LabelsAhead()
		g.mu.Lock()
		behind, last := !g.rows.reached.After(t), g.lastRow
		wait := behind && (labels || time.Since(g.rows.moved) < stallTimeout) && time.Since(g.asked) > pollInterval
		g.mu.Unlock()
		if !wait {
			return
		}
		if l.noRowAfter(ctx, last) {
			g.mu.Lock()
			g.asked = time.Now()
			g.mu.Unlock()
			return
		}
		if !g.await(ctx, &g.rows) {
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
