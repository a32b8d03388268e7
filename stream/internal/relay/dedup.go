package relay

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/internal/natsx"
	"github.com/embedd/embedd/internal/ratelog"
	"github.com/embedd/embedd/stream/internal/health"
	"github.com/embedd/embedd/stream/spec"
)

// dedup finds the answers that are stored already, so that none is stored twice. The server discards duplicates only
// within the duplicate window of the stream. A message that may have been stored, because its confirmation was lost or
// an earlier process may have answered the input, is looked up in the end of the output and dead-letter streams before
// it is sent again.
type dedup struct {
	js         jetstream.JetStream
	log        *slog.Logger
	maxUnacked int // MaxAckPending of the consumer: bounds how far back an answer is looked up
	identities *identities
	sinks      []*sink
	known      map[*sink]*knownAnswers // used by one goroutine

	permissions *natsx.PermissionMonitor // nil: not checked
	conditions  *health.Conditions
	logged      ratelog.Limiter
}

func newDedup(js jetstream.JetStream, log *slog.Logger, maxUnacked int, i *identities) *dedup {
	return &dedup{js: js, log: log, maxUnacked: maxUnacked, identities: i,
		known: map[*sink]*knownAnswers{}, conditions: &health.Conditions{}}
}

// knownAnswers are the stored answers to the inputs from sequence from up to, and excluding, sequence to.
type knownAnswers struct {
	input    time.Time // creation of the input stream
	key      *identityKey
	from, to uint64
	ids      map[string]knownAnswer // by name, see lookupNames
	upTo     position               // in the sink
	readAt   time.Time
}

// knownAnswer is a stored answer.
type knownAnswer struct {
	seq uint64 // sequence of the input
	at  int64  // when it was stored, in Unix nanoseconds
}

// maxKnownAnswers bounds the memory of knownAnswers (Invariant 5).
const maxKnownAnswers = spec.MaxAckPending

// covers reports whether it has the answers to an input under a key.
func (k *knownAnswers) covers(in *input, key *identityKey) bool {
	seq := in.Origin.Seq
	return k != nil && k.key == key && k.input.Equal(in.Origin.Created) && k.from <= seq && seq < k.to
}

// add adds a stored message if it answers an input in the range, and returns the input; o is the origin of inputs. If
// there are too many it drops the later half of the range.
func (k *knownAnswers) add(stored storedAnswer, o wire.Origin) (seq uint64, isAnswer bool) {
	names, seq := k.key.lookupNames(stored, o)
	if len(names) == 0 || seq < k.from || seq >= k.to {
		return seq, len(names) > 0
	}
	for _, name := range names {
		k.ids[name] = knownAnswer{seq, stored.at.UnixNano()}
	}
	if len(k.ids) < maxKnownAnswers {
		return seq, true
	}
	newest := k.from
	for _, one := range k.ids {
		newest = max(newest, one.seq)
	}
	k.to = k.from + (newest-k.from)/2 + 1
	maps.DeleteFunc(k.ids, func(_ string, one knownAnswer) bool { return one.seq >= k.to })
	return seq, true
}

// readOn adds the answers that a sink has stored since the last read.
func (k *knownAnswers) readOn(ctx context.Context, s *sink, o wire.Origin) error {
	now := time.Now()
	reached, err := s.read(ctx, k.upTo, func(stored storedAnswer) { k.add(stored, o) })
	if err == nil {
		k.upTo, k.readAt = reached, now
	}
	return err
}

// addSink finds the stream that stores the messages of a subject.
func (d *dedup) addSink(ctx context.Context, subject string) (*sink, error) {
	s := &sink{js: d.js, subject: subject}
	if _, err := s.refresh(ctx); err != nil {
		return nil, err
	}
	d.sinks = append(d.sinks, s)
	return s, nil
}

// window is the shortest duplicate window of the streams.
func (d *dedup) window() time.Duration {
	shortest := int64(math.MaxInt64)
	for _, s := range d.sinks {
		shortest = min(shortest, s.window.Load())
	}
	return time.Duration(shortest)
}

// lookUp marks the parts that are stored. It reads each stream from where it ended before the part was first sent.
func (d *dedup) lookUp(ctx context.Context, parts []*part) error {
	byID := map[*sink]map[string]*part{}
	from := map[*sink]position{}
	for _, o := range parts {
		if byID[o.sink] == nil {
			byID[o.sink], from[o.sink] = map[string]*part{}, o.after
		}
		byID[o.sink][o.id] = o
		if first := from[o.sink]; !o.after.created.Equal(first.created) {
			from[o.sink] = position{} // of different streams: the present one is read from its start
		} else if o.after.seq < first.seq {
			from[o.sink] = o.after
		}
	}
	for s, wanted := range byID {
		reached, err := s.read(ctx, from[s], func(stored storedAnswer) {
			if o := wanted[stored.id]; o != nil && stored.source == o.in.Origin.Source() && o.in.canHaveAnswer(s, stored.at) {
				o.isStored, o.isDuplicate = true, true
			}
		})
		if err != nil {
			return err
		}
		for _, o := range wanted {
			o.after = reached
		}
	}
	return nil
}

// markStored marks the parts of an answer that an earlier attempt of any process stored. It retries until ctx is done;
// then the answer must not be sent, since it may be stored. One goroutine calls it.
func (d *dedup) markStored(ctx context.Context, a *answer) {
	if d == nil {
		return
	}
	found := 0
	for _, o := range a.parts {
		if o.isStored { // this process stored it before the input was postponed
			continue
		}
		for attempt := 0; ; attempt++ {
			var err error
			o.isStored, err = natsx.Guarded(ctx, d.permissions, func(ctx context.Context) (bool, error) {
				return d.isStored(ctx, o)
			})
			if err == nil {
				break
			}
			if ctx.Err() == nil {
				d.conditions.SetError(health.Lookup, fmt.Errorf("earlier outputs cannot be looked up: %w", err))
				d.logged.Warn(d.log, "the end of the output stream cannot be read; trying again", "error", err)
			}
			if !natsx.ShortBackoff(ctx, attempt) {
				return
			}
		}
		d.conditions.Clear(health.Lookup)
		if o.isDuplicate = o.isStored; o.isStored {
			found++
		}
	}
	if found > 0 {
		d.log.Debug("a redelivered message was answered before", "source", a.in.Origin.Source(), "parts", found)
	}
}

// isStored reports whether a part is stored. For an input that is older than the key any answer to all of it counts, an
// output or a dead letter: a restart may decide otherwise than an earlier version.
func (d *dedup) isStored(ctx context.Context, o *part) (bool, error) {
	key := d.identities.current.Load()
	if err := d.readAnswers(ctx, o.sink, o.in, key); err != nil {
		return false, err
	}
	has := func(s *sink, name string) bool {
		one, isKnown := d.known[s].ids[name]
		return isKnown && one.seq == o.in.Origin.Seq && o.in.canHaveAnswer(s, time.Unix(0, one.at))
	}
	if !key.isNewerThan(o.in.Origin) {
		return has(o.sink, o.id) || has(o.sink, d.identities.second(o)), nil
	}
	if has(o.sink, nameBeforeKey(o.in.Origin.Seq, o.kind, o.index)) {
		return true, nil
	}
	for _, s := range d.sinks {
		if s == o.sink || strings.HasPrefix(string(o.kind), string(wire.AnswerRows)) {
			continue
		}
		if err := d.readAnswers(ctx, s, o.in, key); err != nil {
			return false, err
		}
		if has(s, nameBeforeKey(o.in.Origin.Seq, "", 0)) {
			return true, nil
		}
	}
	return false, nil
}

// maxClockSkew is the assumed difference between the clocks of two servers of a cluster.
const maxClockSkew = time.Minute

// readAnswers reads which answers to an input and later ones are stored, unless it is known. Newer answers are read
// again when they are so old that the server may have forgotten them.
func (d *dedup) readAnswers(ctx context.Context, s *sink, in *input, key *identityKey) error {
	if k := d.known[s]; k.covers(in, key) && s.position().seq < k.upTo.seq+maxKnownAnswers {
		if time.Since(k.readAt) < time.Duration(s.window.Load())/2 {
			return nil
		}
		return k.readOn(ctx, s, in.Origin)
	}
	var k *knownAnswers
	reached, err := s.readNewest(ctx, func() (take func(storedAnswer), isEnough func() bool) {
		k = &knownAnswers{input: in.Origin.Created, key: key, from: in.Origin.Seq, to: math.MaxUint64,
			ids: map[string]knownAnswer{}, readAt: time.Now()}
		earlier, isOlder, o := map[uint64]bool{}, false, in.Origin
		take = func(stored storedAnswer) {
			isOlder = isOlder || stored.at.Before(in.timeAt(s).Add(-maxClockSkew))
			seq, isAnswer := k.add(stored, o)
			if o.Seq = seq; isAnswer && seq < k.from && d.identities.isOurs(o, stored.id) {
				earlier[seq] = true
			}
		}
		// The answer to an input was stored after its first delivery. At that time at most maxUnacked inputs before it were
		// unacknowledged. So behind the answer at most maxUnacked answers of this pipeline belong to inputs before it, and as
		// many to a stream of the same name that was there before.
		return take, func() bool { return isOlder || len(earlier) > 2*d.maxUnacked }
	})
	if err != nil {
		return err
	}
	k.upTo = reached
	d.known[s] = k
	return nil
}

// minNewestAnswers is how many of the newest answers in a sink are read at least to find the newest answered input.
const minNewestAnswers = firstLookBack / 4

// newestAnswered returns the highest sequence of an input whose answer is stored, of a stream that was created at a
// time. Up to it the first delivery of a message need not be the first attempt: the consumer may have been deleted and
// created again, or a server that crashed has lost its newest state. Other pipelines may have stored any number of
// messages behind the answers, also on the same subject. Messages from before the input stream are no answers to it.
func (d *dedup) newestAnswered(ctx context.Context, stream string, created time.Time) (newest uint64, err error) {
	key := d.identities.current.Load()
	for _, s := range d.sinks {
		_, err := s.readNewest(ctx, func() (take func(storedAnswer), isEnough func() bool) {
			answers, isOlder, o := 0, false, wire.Origin{Stream: stream, Created: created}
			take = func(stored storedAnswer) {
				isOlder = isOlder || stored.at.Before(created.Add(-maxClockSkew))
				names, seq := key.lookupNames(stored, o)
				if o.Seq = seq; len(names) > 0 && d.identities.isOurs(o, stored.id) {
					answers++
					newest = max(newest, seq)
				}
			}
			return take, func() bool { return isOlder || answers >= minNewestAnswers }
		})
		if err != nil {
			return 0, err
		}
	}
	return newest, nil
}
