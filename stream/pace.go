package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// pace lets the reader of rows and that of labels go side by side through what is stored, in the order of the server's
// times: as it was learned when it came. So a restart finds what it learned before, and neither reader runs ahead of
// the other by more than the buffer holds. A reader that has come to the end of its stream holds up nobody.
type pace struct {
	mu      sync.Mutex
	rows    side
	labels  side
	lastRow uint64    // that was learned
	atEnd   bool      // all labels that were stored are read
	asked   time.Time // when there was no further row last
}

// side is one of the two readers.
type side struct {
	reached time.Time     // of what it reads now, or has read; what follows is no older
	moved   time.Time     // when that was, by our clock
	wake    chan struct{} // to look again; nil until somebody waits
}

// stalled is how long a reader may stand still, and the other waits for it all the same; and how often that looks.
const (
	stalled   = 10 * time.Second
	lookAgain = 100 * time.Millisecond
)

func (s *side) at(t time.Time) {
	if t.After(s.reached) {
		s.reached = t
	}
	s.moved = time.Now()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// labelsAt says how far labels are read, and whether that is the end.
func (p *pace) labelsAt(t time.Time, atEnd bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.atEnd = atEnd
	p.labels.at(t)
}

func (p *pace) rowsTime() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows.reached
}

// await waits for the other reader to move, or a moment; false where ctx is done.
func (p *pace) await(ctx context.Context, other *side) bool {
	p.mu.Lock()
	if other.wake == nil {
		other.wake = make(chan struct{}, 1)
	}
	wake := other.wake
	p.mu.Unlock()
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	select {
	case <-wake:
	case <-again.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// awaitLabels makes the reader of rows wait for labels that are stored and older.
func (p *pipeline) awaitLabels(ctx context.Context, row *lesson) {
	g := &p.labels.pace
	g.mu.Lock()
	g.rows.at(row.time)
	g.mu.Unlock()
	for {
		rows, _ := p.Running.LabelsAhead()
		g.mu.Lock()
		behind := !g.atEnd && g.labels.reached.Before(row.time) && p.labels.stream != ""
		wait := behind && (rows || time.Since(g.labels.moved) < stalled)
		g.mu.Unlock()
		if !wait || !g.await(ctx, &g.labels) {
			return
		}
	}
}

// rowLearned says that a row's message was learned from.
func (p *pipeline) rowLearned(row *lesson) {
	g := &p.labels.pace
	g.mu.Lock()
	g.lastRow = row.origin.Seq
	g.rows.at(row.time)
	g.mu.Unlock()
	p.countLabels()
}

// awaitRows makes the reader of labels wait for rows that are stored and not younger.
func (p *pipeline) awaitRows(ctx context.Context, t time.Time) {
	g := &p.labels.pace
	g.mu.Lock()
	g.labels.at(t)
	g.mu.Unlock()
	for {
		_, labels := p.Running.LabelsAhead()
		g.mu.Lock()
		behind, last := !g.rows.reached.After(t), g.lastRow
		wait := behind && (labels || time.Since(g.rows.moved) < stalled) && time.Since(g.asked) > lookAgain
		g.mu.Unlock()
		if !wait {
			return
		}
		if p.noRowAfter(ctx, last) {
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

// noRowAfter tells whether no row is stored after a sequence number.
func (p *pipeline) noRowAfter(ctx context.Context, seq uint64) bool {
	last, err := p.Input.GetLastMsgForSubject(ctx, p.Subject)
	return errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && last.Sequence <= seq
}
