// Package training is the learning path of a pipeline. It brings every message of the input, and the labels that arrive
// separately, to the stage once and in the order of their streams.
package training

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/killpoint"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/internal/stage"
	"github.com/embedd/embedd/internal/task"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/replica"
	"github.com/embedd/embedd/stream/internal/scope"
	"github.com/embedd/embedd/stream/spec"
)

// maxBacklog is the maximum number of rows that wait to be learned, unless one message has more.
const maxBacklog = 256

// Path is the learning path of one pipeline.
type Path struct {
	*scope.Scope
	// Feed has the messages that the hot path receives; nil when none of them is learned. OpenFeed sets it.
	Feed *Feed
	// ReadFrom is the sequence number of the first message to learn, at which the window of the live model begins; 0: the
	// first of the stream.
	ReadFrom uint64

	replica             *replica.Replica
	labels              *labelReader
	isIdle              atomic.Bool               // other replicas read for learning, and this process does not
	check               atomic.Pointer[task.Task] // has RunReader check the election again; nil before it runs
	unreadable          atomic.Pointer[unreadable]
	labelled            labelGap
	event               atomic.Value // a string: the last event of the input stream, such as a deletion
	guard               atomic.Pointer[crashGuard]
	unlearnedLog        ratelog.Limiter
	hooks               Hooks
	hasLoggedNoConsumer atomic.Bool // a stream allows no consumer for learning
}

// Hooks are functions of the hot path that the learning path calls.
type Hooks struct {
	// IsHolding reports whether inputs wait for a model: then the hot path receives nothing.
	IsHolding func() bool
	// MayLearn reports whether a message may be learned: not if it crashes a process that transforms it. It waits for a
	// limited time until that is known.
	MayLearn func(ctx context.Context, m *scope.Message, streamCreated time.Time) bool
	// SendLabelLetter sends the dead letter of a message of labels.
	SendLabelLetter func(ctx context.Context, m *scope.Message, cause error) error
}

// New returns the learning path of a pipeline.
func New(s *scope.Scope, r *replica.Replica, hooks Hooks) *Path {
	p := &Path{Scope: s, replica: r, hooks: hooks}
	p.labels = &labelReader{Path: p}
	return p
}

// Learns reports whether this process learns: as the trainer, or to become it.
func (p *Path) Learns() bool { return p.Role != spec.RoleTransform && p.Running.Learns() }

// HasLateLabels reports whether labels are learned that arrive separately from their rows.
func (p *Path) HasLateLabels() bool { return p.Labels != "" && p.Learns() }

// ReadsOnce reports whether only the hot path can read the input, so that learning depends on the feed.
func (p *Path) ReadsOnce() bool { return p.Feed != nil && p.Feed.isOnly }

// OpenFeed creates the feed. It is called before the hot path runs.
func (p *Path) OpenFeed() {
	readsOnce := p.Input == nil || !p.HasLimitsRetention()
	p.Feed = newFeed(p.InFlight/4, readsOnce)
	if readsOnce && p.Input != nil {
		p.Log.Info("the stream keeps messages until they are acknowledged, so one reader feeds both paths", "stream",
			p.Stream)
	}
}

// Resume sets where to read after a restart: where the window of the newest checkpoint or of the live model begins. It
// changes what the stage resumes from. In another stream of the same name, or in an older copy that was restored, the
// sequence numbers mean other messages: then reading begins with the first.
func (p *Path) Resume(live *plugin.Live) {
	isSame := live.Model.Note().Source["created"] == p.Stage.Source["created"]
	if isSame && sourceNumber(live, "last") > p.Input.CachedInfo().State.LastSeq {
		live.State = nil
		return
	}
	if isSame {
		live.Seen, p.ReadFrom = sourceNumber(live, "last"), sourceNumber(live, "first")
	}
	if created, first := stage.ReadFrom(live.State); created == p.Created.UnixNano() {
		p.ReadFrom = first
	} else if created != 0 {
		p.ReadFrom = 0
	}
}

// Reader reads messages or summaries, and has them learned.
type Reader interface {
	Run(ctx context.Context)  // until ctx is done; it can run again
	SkipTo(live *plugin.Live) // to where the window of a model begins
}

// RunReader runs a reader while this replica reads for learning, until ctx is done.
func (p *Path) RunReader(ctx context.Context, r Reader) {
	for ctx.Err() == nil {
		isIdle := !p.replica.ReadsForLearning()
		if p.isIdle.Store(isIdle); !isIdle {
			r.SkipTo(p.Running.Live())
			if term := p.replica.MustEndStandby(); term != 0 {
				p.endStandby(ctx, r, term)
			}
		}
		unchanged, end := context.WithCancel(ctx)
		interval := p.replica.LeaseTTL() / 3 // a lease expires without a signal
		if isIdle {
			interval = 0
		}
		check := task.Every(unchanged, interval, func(context.Context) {
			if reads := p.replica.ReadsForLearning(); reads == isIdle || reads && p.replica.MustEndStandby() != 0 {
				end()
			}
		})
		p.check.Store(check)
		if check.Now(); isIdle {
			<-unchanged.Done()
		} else {
			r.Run(unchanged)
		}
		end()
		check.Stop()
	}
}

// ElectionChanged has RunReader check whether this replica reads for learning, and whether the stage's standby must
// end.
func (p *Path) ElectionChanged() {
	if check := p.check.Load(); check != nil {
		check.Now()
	}
}

// endStandby ends the standby of the stage for a term of the lease. If the stream still has the window of the newest
// checkpoint, the stage continues from there, so that it decides as the previous trainer would have. If not, and
// always with summaries or late labels, it continues from what it has learned itself. The start is counted before the
// stage may fit; a stage whose training is stopped stays on standby.
func (p *Path) endStandby(ctx context.Context, r Reader, term uint64) {
	p.Running.Standby(true) // an earlier term may have ended it
	if p.Running.Wait(ctx) != nil {
		return // a fit that has begun under an earlier term may still be stored
	}
	reason := "summaries are learned"
	if messages, isMessages := r.(*reader); isMessages {
		if messages.openGuard(ctx, false); messages.guard.isStopped.Load() {
			p.replica.RecordEndOfStandby(term)
			return
		}
		reason = p.takeOver(ctx, messages)
	}
	if reason != "" {
		p.Log.Info("a new trainer continues from the rows that it has read itself, without evidence for candidates",
			"reason", reason)
		p.Running.Standby(false)
	}
	if !p.replica.RecordEndOfStandby(term) {
		p.Running.Standby(true)
	}
}

// takeOver has the stage and its reader continue from the newest checkpoint. If they cannot, it returns the reason.
func (p *Path) takeOver(ctx context.Context, messages *reader) (reason string) {
	if p.HasLateLabels() {
		return "labels arrive separately"
	}
	live, reason := p.newestCheckpoint(ctx)
	if reason != "" {
		return reason
	}
	if !p.Running.TakeOver(live) {
		return "the schema is not known yet"
	}
	p.Log.Info("a new trainer continues from the newest checkpoint", "from", p.ReadFrom)
	messages.goTo(max(p.ReadFrom, 1))
	return ""
}

// newestCheckpoint reads the live model and its newest checkpoint, and sets where its window begins. Without a model it
// returns nil, and the window begins where reading began. reason explains why the window cannot be read again, or is
// "".
func (p *Path) newestCheckpoint(ctx context.Context) (live *plugin.Live, reason string) {
	live, err := p.replica.Models.Newest(ctx)
	if err != nil {
		return nil, err.Error()
	}
	info, err := p.Input.Info(ctx)
	if err != nil {
		return nil, err.Error()
	}
	now := p.Running.Live()
	switch {
	case !info.Created.Equal(p.Created):
		return nil, "the stream was recreated"
	case (live == nil) != (now == nil):
		return nil, "there is another live model"
	case live == nil:
	case live.Version != now.Version:
		return nil, fmt.Sprintf("model %s is live here, %s in the store", now.Version, live.Version)
	case live.State == nil || live.IsProvisional():
		return nil, "the live model has no checkpoint"
	default:
		if p.Resume(live); live.State == nil {
			return nil, "the stream is older than the checkpoint"
		}
	}
	if first := info.State.FirstSeq; first > max(p.ReadFrom, 1) {
		return nil, fmt.Sprintf("the stream begins with message %d, the window with %d", first, p.ReadFrom)
	}
	return live, ""
}

// sourceNumber is a sequence number in the note of a model: of the first or the last message of its fit. It is 0 if the
// note has none.
func sourceNumber(live *plugin.Live, key string) uint64 {
	n, _ := strconv.ParseUint(live.Model.Note().Source[key], 10, 64)
	return n
}

// Run learns the messages of the input until ctx is done, while this replica reads for learning.
func (p *Path) Run(ctx context.Context) {
	if p.ReadsOnce() {
		p.readFeed(ctx, p.Learn)
		return
	}
	// A message whose learning has begun is learned even if the reader is stopped: the position is past it.
	p.RunReader(ctx, newReader(p, func(_ context.Context, m *Message) { p.Learn(ctx, m) }))
}

// Read brings the messages of the input to take until ctx is done, whether or not this replica reads for learning.
func (p *Path) Read(ctx context.Context, take func(context.Context, *Message)) {
	if p.ReadsOnce() {
		p.readFeed(ctx, take)
	} else {
		newReader(p, take).Run(ctx)
	}
}

// readFeed reads an input that can be read only once.
func (p *Path) readFeed(ctx context.Context, take func(context.Context, *Message)) {
	stream := p.Created
	for {
		m, ok := p.Feed.Pop(ctx)
		if !ok {
			return
		}
		if m.Origin.Created.After(stream) {
			stream = m.Origin.Created
			p.Series.Add(health.ReaderRestarts, 1, string(Recreated))
			p.SetEvent(fmt.Sprintf("the input stream was recreated at %s; learning continues from its first message",
				health.Timestamp(stream)))
		}
		take(ctx, m)
	}
}

// Learn brings a message to the stage. It waits until the stage has room, so that no reader is far ahead of it.
func (p *Path) Learn(ctx context.Context, received *Message) {
	if p.HasLateLabels() {
		p.labels.awaitLabels(ctx, received)
		defer p.labels.rowLearned(received)
	}
	m, err := received.Decode(p.Running)
	if err == nil {
		p.labelled.addRows(p, received, m)
	}
	if p.Running.Live() == nil && p.Stage.Until != plugin.UntilSkip { // else the hot path counts them
		p.DeadShare.Record(codeOf(err))
	}
	if err != nil {
		p.addUnreadable(received, err)
		return
	}
	if m == nil {
		return
	}
	defer m.Release()
	if !p.awaitBacklog(ctx, m.Rows()) {
		return
	}
	at := plugin.Position{Created: received.Origin.Created, Seq: received.Origin.Seq, Time: received.Time,
		Source: received.Subject}
	killpoint.At(killpoint.Learning, received.Origin.Seq)
	err = p.Running.Learn(m, at)
	if errors.Is(err, plugin.ErrContract) { // it was decoded before the contract was fixed
		if m, err = p.Running.Decode(received.Data); err != nil {
			p.addUnreadable(received, err)
			return
		}
		err = p.Running.Learn(m, at)
	}
	if err != nil {
		p.unlearnedLog.Warn(p.Log, "a message could not be learned", "source", received.Origin.Source(), "error", err)
	}
	killpoint.Here(killpoint.Learned)
}

// awaitBacklog waits until the stage has room for more rows. It returns false when ctx is done first.
func (p *Path) awaitBacklog(ctx context.Context, rows int) bool {
	for n := p.Running.Backlog(); n > 0 && n+rows > maxBacklog; n = p.Running.Backlog() {
		if !natsx.Sleep(ctx, time.Millisecond) {
			return false
		}
	}
	return true
}

// Offer adds a message to the feed that the hot path received and has not decoded. Only the first call for a delivery
// counts. It never waits.
func (p *Path) Offer(received *scope.Message, d *Delivery) {
	p.offer(received, d, &Message{Message: scope.Message{Data: received.Data}, isDecoded: received.IsDeleteMarker()})
}

// OfferDecoded is Offer for a message that the hot path has decoded or failed to decode.
func (p *Path) OfferDecoded(received *scope.Message, d *Delivery, decoded *arrowio.Message, err error) {
	if p.Feed == nil || p.isIdle.Load() || d.IsOffered() {
		return
	}
	if received.IsDeleteMarker() {
		err = nil
	}
	m := &Message{isDecoded: true, decoded: decoded, err: err}
	if decoded != nil {
		m.rows = decoded.Rows()
	}
	if decoded != nil && !p.canLearn(decoded) {
		m.decoded = nil
	}
	if m.decoded != nil {
		m.Data = received.Data
	}
	p.offer(received, d, m)
}

func (p *Path) offer(received *scope.Message, d *Delivery, m *Message) {
	if !d.isOffered.CompareAndSwap(false, true) {
		return
	}
	m.Origin, m.Subject, m.Time = received.Origin, received.Subject, received.Time
	m.after, m.binding, m.size = d.after, d.binding, messageSize
	if !m.isDecoded || m.decoded != nil {
		m.size += m.Size() // without headers
	}
	if m.decoded != nil {
		m.decoded.Retain()
		m.size += max(0, int64(m.decoded.Bytes()-len(received.Data)))
	}
	dropped := p.Feed.push(m)
	if p.Feed.isOnly {
		p.Series.Add(health.Dropped, float64(len(dropped)), health.PathLearn)
	}
}

// canLearn reports whether anything in a message can be learned. Once a model is live, rows without a label are only
// transformed, unless their labels can arrive separately.
func (p *Path) canLearn(m *arrowio.Message) bool {
	if p.Stage.Spec.Label == "" || p.Running.Live() == nil || p.HasLateLabels() {
		return true
	}
	return hasLabel(m)
}
