package stream

import (
	"context"
	"sync"
	"time"

	"github.com/embedd/embedd/stream/internal/health"
	"github.com/nats-io/nats.go"
)

// runCore serves a subject without a stream: at most once. What waits for a first model waits in memory, up to
// InFlight bytes; beyond that the oldest is dropped, counted and logged.
func (p *pipeline) runCore(ctx context.Context, wg *sync.WaitGroup) error {
	p.Log.Info("the input has no stream: messages are answered at most once", "subject", p.Subject)
	waiting := newQueue[*input](p.InFlight)
	p.waiting.Store(waiting)
	if p.Running.Learns() {
		p.feed = newFeed(p.InFlight/4, true)
		wg.Go(func() { p.learnFrom(ctx, p.learn) })
	}
	if p.joins() {
		labels, err := p.learnLabelsCore(ctx)
		if err != nil {
			return err
		}
		defer labels.Unsubscribe()
	}
	var warned time.Time
	dropped := 0
	sub, err := p.Conn.Subscribe(p.Subject, func(msg *nats.Msg) {
		in := &input{subject: msg.Subject, header: msg.Header, data: msg.Data, time: time.Now(), delivered: 1,
			size: int64(len(msg.Data)) + 1024}
		p.pressure.came(0)
		if p.feed != nil && p.holds() {
			p.hand(in, &lesson{data: in.data})
		}
		if gone := waiting.push(in); len(gone) > 0 {
			n := len(gone)
			p.Series.Add(health.Dropped, float64(n), health.PathAnswer)
			for _, in := range gone {
				if p.feed != nil && !in.taught.Load() {
					p.Series.Add(health.Dropped, 1, health.PathLearn)
				}
			}
			dropped += n
			if time.Since(warned) > 10*time.Second {
				warned = time.Now()
				p.Log.Warn("messages are dropped, the oldest first: they arrive faster than they are answered, or no model is live yet",
					"limits.in_flight", p.InFlight, "dropped", dropped)
			}
		}
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	// The queue above is the bound; the client's own must not drop before it.
	if err := sub.SetPendingLimits(-1, int(p.InFlight)); err != nil {
		return err
	}
	if !p.ready(ctx) {
		return nil
	}
	for {
		in, ok := waiting.pop(ctx)
		if !ok {
			break
		}
		if !p.awaitFresh(ctx) || !p.halt.Wait(ctx) {
			waiting.unpop(in)
			break
		}
		p.answerCore(in)
	}
	// Drain: what arrived before the stop is still answered.
	_ = sub.Unsubscribe()
	if _, stale := p.Freshness.Age(); stale && p.WhenStale == StaleHold || p.halt.Reason() != "" {
		n := waiting.len()
		p.Series.Add(health.Dropped, float64(n), health.PathAnswer)
		p.Log.Warn("what was held back is lost: there is no stream to keep it", "messages", n)
		return nil
	}
	for in, ok := waiting.tryPop(); ok; in, ok = waiting.tryPop() {
		p.answerCore(in)
	}
	return p.Conn.FlushTimeout(5 * time.Second)
}

// answerCore answers also where the run has ended: what was taken from the queue would be lost.
func (p *pipeline) answerCore(in *input) {
	a := p.answer(context.Background(), in)
	if p.sendCore(a) {
		p.Series.Answered(a.result, a.rows, a.seconds)
	}
}

// sendCore sends an answer, and tells whether all of it could be sent.
func (p *pipeline) sendCore(a *answer) bool {
	for _, l := range a.letters {
		if !l.enclosed {
			p.Log.Error("a dead letter is lost: it does not fit into what the server takes", "subject", p.Dead)
			p.Series.Add(health.Dropped, 1, health.PathAnswer)
			return false
		}
	}
	for _, o := range a.parts {
		if err := p.Conn.PublishMsg(o.msg); err != nil {
			p.told.lost.Warn(p.Log, "an answer is lost: there is no stream to keep the input", "subject", o.msg.Subject,
				"error", err)
			p.Series.Add(health.Dropped, 1, health.PathAnswer)
			return false
		}
	}
	p.noteLetters(a)
	return true
}
