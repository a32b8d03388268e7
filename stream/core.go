package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/embedd/embedd/internal/bytequeue"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// runCore serves a subject without a stream: at most once. What waits for a first model waits in memory, up to
// InFlight bytes; beyond that the oldest is dropped, counted and logged.
func (p *relay) runCore(ctx context.Context, wg *sync.WaitGroup) error {
	p.Log.Info("the input has no stream: messages are answered at most once", "subject", p.Subject)
	waiting := bytequeue.New(p.InFlight, (*input).bytes)
	p.waiting.Store(waiting)
	if p.Running.Learns() {
		p.training.OpenFeed()
		wg.Go(func() { p.training.Run(ctx) })
	}
	if p.training.HasLateLabels() {
		labels, err := p.training.SubscribeLabels(ctx)
		if err != nil {
			return err
		}
		defer labels.Unsubscribe()
	}
	var warned time.Time
	dropped := 0
	sub, err := p.Conn.Subscribe(p.Subject, func(msg *nats.Msg) {
		in := &input{Message: scope.ReceivedCore(msg)}
		in.size = in.Size()
		p.pressure.came(0)
		if p.training.Feed != nil && p.gate.closed()&holding != 0 {
			p.training.Hand(&in.Message, &in.training)
		}
		if gone := waiting.Push(in); len(gone) > 0 {
			n := len(gone)
			p.Series.Add(health.Dropped, float64(n), health.PathAnswer)
			for _, in := range gone {
				if p.training.Feed != nil && !in.training.IsHanded() {
					p.Series.Add(health.Dropped, 1, health.PathLearn)
				}
			}
			dropped += n
			if time.Since(warned) > 10*time.Second {
				warned = time.Now()
				p.Log.Warn("messages are dropped, the oldest first: they arrive faster than they are answered, or no model is "+
					"live yet",
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
	work, stop := context.WithCancel(context.Background()) // it ends when a stop has taken too long
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.drain, stop) })()
	defer context.AfterFunc(p.severed, stop)()
	lost := 0
	for p.gate.wait(ctx, anything) {
		in, ok := waiting.Pop(ctx)
		if !ok {
			break
		}
		if p.gate.check() != 0 {
			waiting.Unpop(in)
		} else if !p.answerCore(work, in) {
			lost++
		}
	}
	// What arrived before the stop is still answered, as far as the gate is open and the time allows.
	if err := sub.Drain(); err == nil {
		for sub.IsValid() && work.Err() == nil { // until the callback has had what the client had received
			time.Sleep(time.Millisecond)
		}
	}
	why := p.gate.check()
	for ; why == 0 && work.Err() == nil; why = p.gate.check() {
		in, ok := waiting.TryPop()
		if !ok {
			break
		}
		if !p.answerCore(work, in) {
			lost++
		}
	}
	return errors.Join(p.lostAtStop(lost+waiting.Len(), why), p.Conn.FlushTimeout(5*time.Second))
}

// lostAtStop counts and reports the inputs that a stop leaves without an answer, because no stream keeps them.
func (p *relay) lostAtStop(n int, why closure) error {
	if n == 0 {
		return nil
	}
	p.Series.Add(health.Dropped, float64(n), health.PathAnswer)
	reason := fmt.Sprintf("answering them takes longer than %v", p.drain)
	if why != 0 {
		reason = why.String()
	}
	p.Log.Warn("inputs are lost at the stop: no stream keeps them", "messages", n, "reason", reason)
	return spec.Describe(fmt.Sprintf("%d inputs are lost at the stop, because no stream keeps them: %s", n, reason),
		ErrDrain)
}

// answerCore answers an input. It returns false where ctx ended first.
func (p *relay) answerCore(ctx context.Context, in *input) bool {
	a := p.answer(ctx, in)
	if a == nil {
		return false
	}
	if p.sendCore(a) {
		p.Series.Answered(a.result, a.rows, a.seconds)
	}
	return true
}

// sendCore sends an answer, and tells whether all of it could be sent.
func (p *relay) sendCore(a *answer) bool {
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
