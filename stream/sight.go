package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/wildcard"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/spec"
)

// sightEvery is how often the server is asked how the streams of a pipeline stand. sightWait is how long it may take to
// say so.
const (
	sightEvery  = 2 * time.Second
	sightOthers = 5 // times as seldom where another replica asks
	sightWait   = 5 * time.Second
)

// sight is what was last seen of a pipeline's streams.
type sight struct {
	counted  bool      // the lag is known: of the replicas of a pipeline one asks
	lag      uint64    // messages of the input that are not answered
	oldest   time.Time // when the oldest of them came, by our clock; zero where there is none
	obstacle string    // why an input would not be answered, "" where it would
}

// watcher looks at the streams of a pipeline, for readiness and lag. The hot path tells what it meets by itself; this
// is for what nobody meets while no input comes, and for what lies before the hot path.
type watcher struct {
	*pipeline
	told  string            // the obstacle that was last told
	sinks map[string]string // the streams that took the subjects at the last look

	oldest map[string]oldest // by the subjects of a consumer
	blind  bool              // the user may not read single messages

	looked time.Time // when others were last seen to learn, where this replica does not
	others bool      // they do
}

// oldest is the first message that a consumer has not acknowledged, as of the last look.
type oldest struct {
	floor uint64    // acknowledged up to here
	first uint64    // number of the first message after it, 0: not known
	at    time.Time // when that came, by our clock
}

// watch looks until ctx is done.
func (p *pipeline) watch(ctx context.Context) {
	w := &watcher{pipeline: p, sinks: map[string]string{}, oldest: map[string]oldest{}}
	tick := time.NewTicker(max(sightEvery, p.PollInterval))
	defer tick.Stop()
	for rest := 0; ; rest-- {
		if rest <= 0 && p.Conn.IsConnected() {
			if s := w.look(ctx); ctx.Err() == nil {
				p.sight.Store(s)
				p.Conditions.SetText(health.Streams, s.obstacle)
				w.tell(s.obstacle)
				if !s.counted && s.obstacle == "" {
					rest = sightOthers // the hot path tells what it meets by itself
				}
			}
		}
		select {
		case <-tick.C:
		case <-p.again:
			rest = 0
		case <-ctx.Done():
			return
		}
	}
}

// tell logs an obstacle once, and that it is gone.
func (w *watcher) tell(obstacle string) {
	switch {
	case obstacle != "" && w.told == "":
		w.Log.Warn("no input can be answered", "reason", obstacle)
	case obstacle == "" && w.told != "":
		w.Log.Info("inputs can be answered again")
	}
	w.told = obstacle
}

// pullSubject is where the hot path asks for messages.
func pullSubject(p *pipeline) string {
	return natsx.PullSubject(p.JS, p.Stream, p.ConsumerName())
}

// during does something that asks the server about the pipeline's input on such subjects, and ends it as soon as the
// server refuses one of them.
func (p *pipeline) during(ctx context.Context, on []string, do func(context.Context) error) error {
	return p.Permissions.Guard(ctx, func(one natsx.Permission) bool {
		return p.Permissions.IsServerRequest(one) && (one.Action == natsx.Subscribe || strings.Contains(one.Subject,
			"."+p.Stream) &&
			slices.ContainsFunc(on, func(s string) bool { return strings.Contains(one.Subject, s) }))
	}, do)
}

// lookAgain has the watcher look at once.
func (p *pipeline) lookAgain() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

func (w *watcher) look(ctx context.Context) *sight {
	ctx, cancel := context.WithTimeout(ctx, sightWait)
	defer cancel()
	w.Permissions.Refresh(ctx)
	s := &sight{}
	note := func(text string) {
		if s.obstacle == "" {
			s.obstacle = text
		}
	}
	if before := w.sight.Load(); before != nil {
		s.lag, s.oldest = before.lag, before.oldest // where they cannot be told now, the last that is known
	}
	if s.counted = w.counts(ctx); s.counted {
		if err := w.lag(ctx, s); err != nil {
			note(err.Error())
		}
	}
	for _, subject := range []string{w.Output, w.Dead} {
		if err := w.taken(ctx, subject); err != nil {
			note(err.Error())
		}
	}
	if one := (natsx.Permission{Action: natsx.Publish, Subject: pullSubject(w.pipeline)}); w.Permissions.IsDenied(one) {
		note(one.DeniedError().Error())
	}
	// Of acknowledgements only a refusal tells: which subjects they have is the server's choice.
	if one := (natsx.Permission{Action: natsx.Publish, Subject: natsx.AckSubjects}); w.Permissions.WasDenied(one) {
		note(one.DeniedError().Error())
	}
	return s
}

// counts tells whether this replica counts what is not answered: of those of a pipeline the one that learns does.
func (w *watcher) counts(ctx context.Context) bool {
	if observes, isKnown := w.replica.ObservesLag(); isKnown {
		return observes
	}
	if time.Since(w.looked) > w.replica.LeaseLife() {
		if held, err := w.replica.Leases.IsHeld(ctx, w.Name); err == nil {
			w.looked, w.others = time.Now(), held
		}
	}
	return !w.others
}

// lag counts the messages of the input that are not answered, and finds the oldest. The error says why none of them
// would be.
func (w *watcher) lag(ctx context.Context, s *sight) error {
	var c jetstream.Consumer
	input, err := w.stream(ctx, w.Stream)
	if err == nil {
		err = w.during(ctx, []string{".CONSUMER.INFO."}, func(ctx context.Context) (err error) {
			c, err = w.JS.Consumer(ctx, w.Stream, w.ConsumerName())
			return err
		})
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return w.inputGone()
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		n, err := w.matching(ctx, w.Subject)
		if err != nil {
			return natsx.ExplainRequestError(err, "about stream "+w.Stream)
		}
		s.lag, s.oldest = n, w.after(ctx, input, 0, w.Subject, n)
		if lose := w.whole.lose.Load(); lose != nil {
			(*lose)() // the hot path binds it again, and says why where it cannot
		}
		return fmt.Errorf("the consumer %s of stream %s is not there; it is made again", w.ConsumerName(), w.Stream)
	case err != nil:
		return natsx.ExplainRequestError(err, "about stream "+w.Stream+" and its consumer "+w.ConsumerName())
	}
	info := c.CachedInfo()
	s.lag = info.NumPending + uint64(info.NumAckPending)
	s.oldest = w.after(ctx, input, info.AckFloor.Stream, w.Subject, s.lag)
	for _, q := range slices.Concat(w.earlier, needs.Partitions(&w.Pipeline)[1:]) {
		n, from, err := w.behind(ctx, q)
		if err != nil {
			return natsx.ExplainRequestError(err, "about partition "+q.String()+" of stream "+w.Stream)
		}
		if at := w.after(ctx, input, from, q.Filter(w.Subject), n); s.oldest.IsZero() || !at.IsZero() && at.Before(s.oldest) {
			s.oldest = at
		}
		s.lag += n
	}
	if f := needs.PartitionFault(&w.Pipeline, &input.CachedInfo().Config); f != nil {
		return f
	}
	return nil
}

// behind counts what is not answered of a partition, and says up to where all is.
func (w *watcher) behind(ctx context.Context, q needs.Partition) (n, floor uint64, err error) {
	var c jetstream.Consumer
	err = w.during(ctx, []string{".CONSUMER.INFO."}, func(ctx context.Context) (err error) {
		c, err = w.JS.Consumer(ctx, w.Stream, q.ConsumerName(w.ConsumerName()))
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound): // who holds it makes it just now
		n, err = w.matching(ctx, q.Filter(w.Subject))
		return n, 0, err
	case err != nil:
		return 0, 0, err
	}
	info := c.CachedInfo()
	return info.NumPending + uint64(info.NumAckPending), info.AckFloor.Stream, nil
}

// stream is a stream as one of the pipelines has seen it.
func (w *watcher) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return w.Streams.Stream(ctx, name, func(ctx context.Context) (s jetstream.Stream, err error) {
		err = w.Permissions.Guard(ctx, func(one natsx.Permission) bool {
			return strings.HasSuffix(one.Subject, ".STREAM.INFO."+name)
		}, func(ctx context.Context) (err error) {
			s, err = w.JS.Stream(ctx, name)
			return err
		})
		return s, err
	})
}

// inputGone says that the input stream is not there any more.
func (p *pipeline) inputGone() error {
	return spec.Describe(fmt.Sprintf("the input stream %s is gone; make it again: 'embedd setup --apply'", p.Stream),
		jetstream.ErrStreamNotFound)
}

// matching counts the messages of the input that a filter takes.
func (w *watcher) matching(ctx context.Context, filter string) (n uint64, err error) {
	input, err := w.JS.Stream(ctx, w.Stream)
	if err != nil {
		return 0, err
	}
	info, err := input.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return 0, err
	}
	for _, of := range info.State.Subjects {
		n += of
	}
	return n, nil
}

// after is when the first message of the pipeline after a number came, by our clock; zero where it cannot be told. The
// message is asked for once, not at each look: it is sent whole.
func (w *watcher) after(ctx context.Context, input jetstream.Stream, floor uint64, filter string,
	messages uint64) time.Time {
	if messages == 0 {
		return time.Time{}
	}
	info, one := input.CachedInfo(), w.oldest[filter]
	if floor == one.floor && one.first >= info.State.FirstSeq && one.first > 0 || w.blind {
		return one.at
	}
	one = oldest{floor: floor}
	err := w.during(ctx, []string{".GET."}, func(ctx context.Context) error {
		msg, err := input.GetMsg(ctx, floor+1, jetstream.WithGetMsgSubject(filter))
		if err == nil {
			one.first, one.at = msg.Sequence, time.Now().Add(-info.TimeStamp.Sub(msg.Time)) // clocks may differ
		}
		return err
	})
	w.blind, w.oldest[filter] = errors.Is(err, ErrDenied), one
	return one.at
}

// taken tells why the server would not take a message on a subject; nil where it would.
func (w *watcher) taken(ctx context.Context, subject string) error {
	if one := (natsx.Permission{Action: natsx.Publish, Subject: subject}); w.Permissions.IsDenied(one) {
		return one.DeniedError()
	}
	info, err := w.sink(ctx, subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return missing(needs.StreamName(subject), subject)
	}
	if err != nil {
		return natsx.ExplainRequestError(err, "which stream takes "+subject)
	}
	if f := needs.StreamFull(info, subject); f != nil {
		return f
	}
	return nil
}

// sink is the stream that takes a subject: the one of the last look, where it still does.
func (w *watcher) sink(ctx context.Context, subject string) (*jetstream.StreamInfo, error) {
	if name := w.sinks[subject]; name != "" {
		s, err := w.stream(ctx, name)
		if err == nil && wildcard.CoveredBy(subject, s.CachedInfo().Config.Subjects) {
			return s.CachedInfo(), nil
		}
	}
	info, err := streamOf(ctx, w.JS, subject)
	if err == nil {
		w.sinks[subject] = info.Config.Name
	}
	return info, err
}

// streamOf is the stream that takes a subject.
func streamOf(ctx context.Context, js jetstream.JetStream, subject string) (*jetstream.StreamInfo, error) {
	name, err := js.StreamNameBySubject(ctx, subject)
	if err != nil {
		return nil, err
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// blocked is why an input would not be answered now, "" when it would.
func (p *pipeline) blocked() string {
	p.Conditions.SetText(health.ModelStore, p.replica.Outdated())
	offline := ""
	if !p.Conn.IsConnected() {
		offline = "not connected to the server"
	}
	p.Conditions.SetText(health.Connection, offline)
	if p.Input == nil {
		for _, subject := range []string{p.Output, p.Dead} {
			if one := (natsx.Permission{Action: natsx.Publish, Subject: subject}); p.Permissions.IsDenied(one) {
				p.Conditions.SetText(health.Permission, one.DeniedError().Error())
				return p.Conditions.First()
			}
		}
		p.Conditions.Clear(health.Permission)
	}
	return p.Conditions.First()
}
