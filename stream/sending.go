package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/summaries"
)

// At an edge whose hub learns from summaries the replicas sum up the blocks of the input as they do elsewhere. In the
// place of who learns from them stands who sends them: in the order of the blocks, each once. Any replica may: the
// stream of what was sent says which comes next, and takes none that is not behind the last.

// isNamed tells whether the domain of the server is one of those whose summaries the hub takes.
func (p *pipeline) isNamed(ctx context.Context) error {
	account, err := p.JS.AccountInfo(ctx)
	if err != nil {
		return natsx.ExplainAPIError(err)
	}
	if text := needs.UnnamedEdge(account.Domain, p.Edges); text != "" {
		return errors.New(text)
	}
	return nil
}

// sender sends the summaries of the input to the hub.
type sender struct {
	merger
	sent  *summaries.Sender // nil: not bound yet
	cause string            // what kept the last from being sent, as it was told; "" for nothing
}

func newSender(p *pipeline) *sender { return &sender{merger: merger{pipeline: p}} }

// run sums up and sends until ctx is done. Answers do not wait for any of it: whatever keeps it from that is told of,
// and tried again.
func (m *sender) run(ctx context.Context) {
	var maker sync.WaitGroup
	defer maker.Wait()
	summing := false
	m.summarily(ctx, func(ctx context.Context) (sent bool, err error) {
		if err = m.open(ctx); err == nil {
			if !summing {
				summing = true
				maker.Go(func() { m.sumUp(ctx) })
			}
			sent, err = m.step(ctx)
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			m.sent = nil // it is made again where it is ours
		}
		if ctx.Err() == nil {
			m.tell(err)
		}
		return sent, err
	})
}

// open binds the stream of what was sent and the bucket of the summaries, or makes them, where that was not done.
func (m *sender) open(ctx context.Context) error {
	if m.sent != nil {
		return nil
	}
	return m.Permissions.Guard(ctx, m.Permissions.IsServerRequest, func(ctx context.Context) (err error) {
		if err = m.limited(); err == nil {
			err = m.isNamed(ctx)
		}
		if err == nil && m.summaries == nil {
			m.summaries, err = summaries.Open(ctx, m.JS, m.Models.Replicas)
		}
		if err == nil {
			m.sent, err = summaries.OpenSender(ctx, m.JS, needs.SummaryBytes(&m.Pipeline), m.Models.Replicas)
		}
		if err != nil {
			return err
		}
		if c := m.sent.Config(); needs.SummaryLimit(&m.Pipeline, &c) != "" {
			m.Log.Warn(needs.SummaryLimit(&m.Pipeline, &c))
		}
		return nil
	})
}

// tell says in the status what keeps summaries from the hub, once for each cause, and when that is over.
func (m *sender) tell(err error) {
	cause := ""
	if err != nil {
		cause = err.Error()
	}
	if cause == m.cause {
		return
	}
	m.cause = cause
	if err == nil {
		m.training.SetEvent(fmt.Sprintf("summaries of the input are sent to the hub again, since %s",
			health.Timestamp(time.Now())))
		return
	}
	m.training.SetEvent(fmt.Sprintf("no summary of the input is sent to the hub, seen at %s, and that is tried again; "+
		"answers go on: %s",
		health.Timestamp(time.Now()), cause))
}

// step sends the next summary where it is there.
func (m *sender) step(ctx context.Context) (sent bool, err error) {
	s, err := m.stretch(ctx)
	if err != nil {
		return false, err
	}
	if m.shelf == nil || !s.created.Equal(m.created) {
		m.created, m.shelf, m.marked, m.looked = s.created, m.pipeline.shelf(s.created), nil, 0
	}
	last, after, err := m.sent.LastNotice(ctx, m.Name)
	if err == nil && last == nil {
		last, err = m.sent.LoadLast(ctx, m.summaries, m.Name)
	}
	if err != nil {
		return false, err
	}
	next := s.first
	if of := uint64(m.Stage.Training.Block); last != nil && last.Created == m.created.UnixNano() {
		next = max(next, (last.Last+of-1)/of)
	}
	if m.next != next {
		m.next, m.bad = next, 0
	}
	if err := m.know(ctx, s); err != nil || m.features == nil {
		return false, err
	}
	if err := m.markSent(ctx); err != nil {
		return false, err
	}
	text, err := m.shelf.Get(ctx, m.next, m.Running.MaxSummary())
	if errors.Is(err, summaries.ErrMissing) {
		return false, nil
	}
	b := m.block(m.created, m.next)
	if err == nil {
		err = m.Running.CheckSummary(b, m.features, text)
	}
	if errors.Is(err, summaries.ErrDamaged) || errors.Is(err, stage.ErrSummary) {
		return false, m.again(ctx, err)
	}
	if err != nil {
		return false, err
	}
	n := summaries.Notice{Created: m.created.UnixNano(), First: b.First, Last: b.Last, Settings: m.Running.Settings()}
	if sent, err = m.sent.Send(ctx, m.Name, n, text, after); err != nil || !sent {
		return false, err
	}
	if err := m.sent.SaveLast(ctx, m.summaries, m.Name, n); err != nil {
		return false, err
	}
	m.Series.Add(health.Summaries, 1, "sent")
	m.Log.Debug("a summary is on its way to the hub", "first", b.First, "last", b.Last, "bytes", len(text))
	return true, m.shelf.Delete(ctx, m.next)
}

// markSent says what is to be summed up, and now and then removes what was sent: before this replica began, and what
// another stored of a block that had been sent meanwhile.
func (m *sender) markSent(ctx context.Context) error {
	now := summaries.Progress{From: m.next, Next: m.next, Features: m.features}
	if m.marked != nil && m.marked.Next == now.Next && slices.Equal(m.marked.Features, now.Features) {
		return nil
	}
	there, err := m.shelf.Progress(ctx)
	if err != nil {
		return err
	}
	if there == nil || there.Next != now.Next || there.From != now.From || !slices.Equal(there.Features, now.Features) {
		if err := m.shelf.SetProgress(ctx, now); err != nil {
			return err
		}
	}
	if m.marked == nil || now.Next > m.marked.Next+1 || now.Next%aheadBlocks == 0 {
		if err := m.shelf.DeleteObsolete(ctx, now.From); err != nil {
			return err
		}
	}
	m.marked = &now
	return nil
}
