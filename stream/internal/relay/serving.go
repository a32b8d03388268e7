package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/spec"
)

// serving is one call of Serve: a chain of steps from the pull to the acknowledgement, and what is in flight there.
type serving struct {
	*Relay
	pulls     context.Context // ends when nothing more is pulled
	work      context.Context // ends when what was pulled cannot be answered any more
	stop      func()          // ends work
	inFlight  *inFlight
	publisher *publisher

	started sync.Once // at the first input: an idle pipeline has neither the goroutines nor the queues
	endWait func()    // ends the wait for the first input
	pulled  chan *input
	steps   sync.WaitGroup
}

// Serve answers the messages of the input stream in order until ctx is done, and then those that were pulled before, as
// far as the drain timeout allows. connClosed is done when the connection was closed: then nothing can be answered.
func (r *Relay) Serve(ctx, connClosed context.Context) (err error) {
	s := &serving{Relay: r, inFlight: newInFlight(r.activity, r.partitions.maxInFlight, r.utilization.maxMessages),
		publisher: newPublisher(r.Conn, r.Models.Hub), endWait: r.utilization.wait()}
	defer r.flushDeadLetterLog()
	defer s.publisher.close()
	s.publisher.sendNext = func(a *answer) { r.send(s.publisher, a) }
	r.inFlight.Store(s.inFlight)
	s.work, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer s.stop()
	pulls, endPulls := context.WithCancel(ctx)
	defer endPulls()
	s.pulls = pulls
	var isLate atomic.Bool
	defer context.AfterFunc(pulls, func() { time.AfterFunc(r.drainTimeout, func() { isLate.Store(true); s.stop() }) })()
	defer context.AfterFunc(connClosed, s.stop)()
	defer task.Every(s.work, r.AckWait/3, func(context.Context) { s.inFlight.keepAlive() }).Stop()

	if r.Partitions > 0 {
		(&partitionOwner{partitions: r.partitions, work: s.work, inFlight: s.inFlight, out: s.enqueue}).run(pulls)
	} else {
		err = (&puller{hotPath: r.hotPath, source: r.shared, work: s.work, inFlight: s.inFlight, out: s.enqueue}).run(pulls)
	}
	endPulls() // after an error of the pull, inputs must not wait for a model any longer
	if s.pulled != nil {
		close(s.pulled)
	}
	s.steps.Wait()
	if left := s.nakAll(); left > 0 && isLate.Load() {
		err = errors.Join(err, r.errDrain(left))
	}
	return err
}

// enqueue passes a pulled input to the other steps.
func (s *serving) enqueue(in *input) {
	s.started.Do(s.start)
	s.pulled <- in
}

// start starts the steps after the pull: the answers, and their confirmation.
func (s *serving) start() {
	s.endWait()
	s.pulled = make(chan *input, maxPending)
	sent := make(chan *answer, maxPending)
	s.steps.Go(func() {
		defer close(sent)
		for in := range s.utilization.receive(s.pulled) {
			s.answer(in, sent)
		}
	})
	s.steps.Go(func() {
		defer s.stop()
		c := newConfirmer(s.hotPath, s.publisher)
		c.inFlight, c.sent = s.inFlight, sent
		c.run(s.work)
	})
}

// answer publishes the answer to an input, if it is answered here, and passes it on to sent.
func (s *serving) answer(in *input, sent chan<- *answer) {
	a := s.process(in)
	if a == nil {
		return
	}
	s.publish(s.publisher, a)
	killpoint.Here(killpoint.Published)
	if len(a.deadLetters) > 0 {
		killpoint.Here(killpoint.Dead)
	}
	sent <- a
	if in.isSuspect {
		s.inFlight.awaitIdle(s.work)
	}
}

// mayAnswer waits until an input may be answered here. If it returns false, the input was removed from those in flight,
// or stays there until Serve naks what is left; either way it is redelivered.
func (s *serving) mayAnswer(in *input) bool {
	isOrdered := in.source.isOrdered()
	switch {
	case !in.source.isActive(): // it is redelivered, here or to the new owner of the partition
	case isOrdered && s.gate.check() != 0: // the partition is released, which must not wait for the input
		in.source.abort()
	case isOrdered:
		return true
	case !s.gate.wait(s.pulls, anyReason&^outdated): // other replicas wait too, except while this is outdated
		return false
	case s.gate.reasons()&outdated == 0:
		return true
	default: // another replica answers it, or this one when it is up to date
		if s.training.ReadsOnce() {
			s.training.Offer(&in.Message, &in.training) // the redelivery is not used for training
		}
		_ = in.msg.NakWithDelay(time.Second) // without a delay the open pull would receive it
	}
	s.inFlight.remove(in)
	return false
}

// process makes the answer to an input. It returns nil if the input is not answered here, see mayAnswer.
func (s *serving) process(in *input) *answer {
	if !s.mayAnswer(in) || s.work.Err() != nil {
		return nil
	}
	s.Running.Open(&s.transformer.opened, in.Data)
	expanded := int64(s.Running.Expanded(&s.transformer.opened) - len(in.Data))
	if !s.inFlight.beginProcessing(s.work, in, expanded) {
		return nil
	}
	beginSpan(s.Scope, in)
	a := s.transformer.answerSuspect(s.work, in)
	if a == nil || s.work.Err() != nil { // a lookup that ended with work does not know whether the answer is stored
		return nil
	}
	s.inFlight.grow(in, a.bytes())
	s.utilization.processed(a.seconds)
	return a
}

// nakAll naks the inputs that were not answered, so that they are redelivered at once, and returns how many there are.
// Their attempts do not count.
func (s *serving) nakAll() int {
	s.activity.processing.Add(-int64(s.inFlight.processing))
	for _, in := range s.inFlight.inputs {
		in.source.attempts.retract(s.work, in)
		endSpan(in.span, errNotAnswered)
	}
	left := s.inFlight.all()
	for _, msg := range left {
		_ = msg.Nak()
	}
	return len(left)
}

func (r *Relay) errDrain(inputs int) error {
	why := ""
	if reason := r.Conditions.Reason(health.Publish); reason != "" {
		why = ": " + reason
	}
	return spec.Describe(fmt.Sprintf("stopping: %d inputs that were pulled are not answered after %v%s; they stay "+
		"in stream %s and are answered after the next start", inputs, r.drainTimeout, why, r.Stream), spec.ErrDrain)
}

// errNotAnswered is the status of the span of an input that is redelivered after a stop.
var errNotAnswered = errors.New("stopping: not answered here")
