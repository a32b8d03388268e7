package stream

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/internal/training"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/summaries"
)

const (
	// aheadBlocks is how many blocks beyond the one that is learned next are summed up: it bounds what is stored.
	aheadBlocks = 64
	// claimLife is how long a claim stands still before another replica takes the block.
	claimLife = 20 * time.Second
	// mostAttempts is with how many replicas that ended while they made it nothing is learned from a block.
	mostAttempts = 3
)

// errGone is a block of which messages have left the stream.
var errGone = errors.New("messages of the block have left the stream")

// maker sums up blocks.
type maker struct {
	*pipeline
	created time.Time
	shelf   *summaries.Collection
	claims  *summaries.Claims
	next    uint64          // as it was marked last
	done    map[uint64]bool // blocks behind it that are there

	// blocks before ripe are at every server of the stream, those before ripening were stored at since
	ripe, ripening uint64
	since          time.Time
}

// sumUp makes summaries until ctx is done. It survives everything that can happen to a stream and its server.
func (p *pipeline) sumUp(ctx context.Context) {
	m := &maker{pipeline: p}
	for attempt := 0; ctx.Err() == nil; {
		made, err := m.step(ctx)
		if err != nil && ctx.Err() == nil {
			p.told.summing.Warn(p.Log, "a block of the input could not be summed up; trying again", "error", err)
			natsx.Backoff(ctx, attempt)
			attempt++
			continue
		}
		attempt = 0
		if !made {
			p.waitForBlocks(ctx)
		}
	}
}

// step makes the summary of one block where one is to be made.
func (m *maker) step(ctx context.Context) (made bool, err error) {
	s, err := m.stretch(ctx)
	if err != nil {
		return false, err
	}
	if m.shelf == nil || !s.created.Equal(m.created) {
		m.created, m.shelf, m.done, m.next = s.created, m.pipeline.shelf(s.created), map[uint64]bool{}, 0
		m.claims, m.ripe, m.ripening = m.shelf.Claims(m.Instance, m.claimLife), 0, 0
	}
	mark, err := m.shelf.Progress(ctx)
	if mark == nil || err != nil {
		return false, err
	}
	if mark.Next < m.next { // another learns, and begins further back
		m.done = map[uint64]bool{}
	}
	maps.DeleteFunc(m.done, func(n uint64, _ bool) bool { return n < mark.Next })
	m.next = mark.Next
	m.claims.Forget(mark.Next)
	for n := max(mark.Next, s.first); n < min(m.settled(s.last), mark.Next+aheadBlocks); n++ {
		if m.done[n] && n != mark.Next { // who learns may have thrown that one away
			continue
		}
		if m.done[n], err = m.shelf.Has(ctx, n); m.done[n] || err != nil {
			if err != nil {
				return false, err
			}
			continue
		}
		claim, err := m.claims.TryClaim(ctx, n)
		if err != nil {
			return false, err
		}
		if claim == nil {
			continue // another makes it
		}
		err = m.make(ctx, n, mark.Features, claim.Attempts)
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), replica.ReleaseTimeout)
		err = errors.Join(err, claim.Release(clean))
		cancel()
		if errors.Is(err, errGone) {
			continue // who learns finds the same, and goes on behind it
		}
		return err == nil, err
	}
	return false, nil
}

// settled is how many of the blocks that are stored are known to be at every server of the stream: a consumer of one
// that has not come to its newest messages yet would say that there are no more.
func (m *maker) settled(stored uint64) uint64 {
	if m.Conn.ConnectedClusterName() == "" {
		return stored
	}
	if now := time.Now(); m.since.IsZero() || now.Sub(m.since) >= training.SettleTime {
		m.ripe, m.ripening, m.since = m.ripening, stored, now
	}
	return min(m.ripe, stored)
}

// make sums up one block and stores it.
func (m *maker) make(ctx context.Context, n uint64, features []string, attempts int) error {
	b := m.block(m.created, n)
	sum, err := m.Running.SummaryBuilder(b, features)
	if err != nil {
		return err
	}
	if attempts > mostAttempts {
		m.Log.Error("replicas ended while they summed up a block of the input; nothing is learned from it", "first", b.First,
			"last", b.Last, "replicas", attempts-1)
		sum.Omit(m.Stage.Training.Block)
	} else if err := m.training.ReadBlock(ctx, b, func(in *scope.Message) bool {
		sum.Add(plugin.Position{Created: b.Created, Seq: in.Origin.Seq, Time: in.Time}, in.Data)
		return true
	}); err != nil {
		return err
	}
	text, err := sum.Bytes(ctx)
	if err != nil {
		return err
	}
	info, err := m.JS.Stream(ctx, m.Stream)
	if err != nil {
		return err
	}
	now := info.CachedInfo()
	if !now.Created.Equal(m.created) || now.State.FirstSeq > b.First || now.State.LastSeq < b.Last {
		return errGone
	}
	if mark, err := m.shelf.Progress(ctx); err != nil || mark != nil && n < mark.From {
		return err // it was learned meanwhile, and is not needed any more
	}
	first, err := m.shelf.Put(ctx, n, text)
	if err != nil {
		return err
	}
	result := "again"
	if first {
		result = "stored"
	}
	m.Series.Add(health.Summaries, 1, result)
	m.Log.Debug("a block of the input is summed up", "first", b.First, "last", b.Last, "bytes", len(text), "stored", first)
	return nil
}
