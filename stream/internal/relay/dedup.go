package relay

import (
	"context"
	"fmt"
	"log/slog"
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
	sinks      map[string]*sink
	known      map[*sink]*knownAnswers // used by one goroutine

	permissions *natsx.PermissionMonitor // nil: not checked
	conditions  *health.Conditions
	logged      ratelog.Limiter
}

func newDedup(js jetstream.JetStream, log *slog.Logger, maxUnacked int, i *identities) *dedup {
	return &dedup{js: js, log: log, maxUnacked: maxUnacked, identities: i, sinks: map[string]*sink{},
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

// add adds an answer. If there are too many it drops the later half of the range.
func (k *knownAnswers) add(id string, seq uint64, at time.Time) {
	if seq < k.from || seq >= k.to {
		return
	}
	k.ids[id] = knownAnswer{seq, at.UnixNano()}
	if len(k.ids) < maxKnownAnswers {
		return
	}
	newest := k.from
	for _, one := range k.ids {
		newest = max(newest, one.seq)
	}
	k.to = k.from + (newest-k.from)/2 + 1
	for id, one := range k.ids {
		if one.seq >= k.to {
			delete(k.ids, id)
		}
	}
}

// addSink finds the stream that stores the messages of a subject.
func (d *dedup) addSink(ctx context.Context, subject string) (*jetstream.StreamInfo, error) {
	s := &sink{js: d.js, subject: subject}
	stream, err := s.refresh(ctx)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	d.sinks[subject] = s
	return info, nil
}

// window is the shortest duplicate window of the streams.
func (d *dedup) window() time.Duration {
	shortest := int64(math.MaxInt64)
	for _, s := range d.sinks {
		shortest = min(shortest, s.window.Load())
	}
	return time.Duration(shortest)
}

// sink returns the sink of a subject, nil on core NATS.
func (d *dedup) sink(subject string) *sink {
	if d == nil {
		return nil
	}
	return d.sinks[subject]
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

// markStored marks the parts of an answer that an earlier attempt of any process stored. mayBeAnswered is false if the
// input was never delivered before: then nothing is read. It retries until ctx is done; then the answer must not be
// sent, since it may be stored. One goroutine calls it.
func (d *dedup) markStored(ctx context.Context, a *answer, mayBeAnswered bool) {
	if d == nil || !mayBeAnswered {
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

// firstLookBack is how many messages before the end of a stream are read first.
const firstLookBack = 4096

// maxClockSkew is the assumed difference between the clocks of two servers of a cluster.
const maxClockSkew = time.Minute

// readAnswers reads which answers to an input and later ones are stored, unless it is known. Newer answers are read
// again when they are so old that the server may have forgotten them.
func (d *dedup) readAnswers(ctx context.Context, s *sink, in *input, key *identityKey) error {
	k, seq := d.known[s], in.Origin.Seq
	if k != nil && k.key == key && k.input.Equal(in.Origin.Created) && k.from <= seq && seq < k.to &&
		s.position().seq < k.upTo.seq+maxKnownAnswers {
		if time.Since(k.readAt) < time.Duration(s.window.Load())/2 {
			return nil
		}
		now := time.Now()
		reached, err := s.read(ctx, k.upTo, func(stored storedAnswer) {
			names, seq := key.lookupNames(stored, in.Origin)
			for _, name := range names {
				k.add(name, seq, stored.at)
			}
		})
		if err == nil {
			k.upTo, k.readAt = reached, now
		}
		return err
	}
	for lookBack := uint64(firstLookBack); ; lookBack *= 4 {
		now := time.Now()
		from, isAll := s.before(lookBack)
		k := &knownAnswers{input: in.Origin.Created, key: key, from: seq, to: math.MaxUint64, ids: map[string]knownAnswer{},
			readAt: now}
		earlier, isOlder, o := map[uint64]bool{}, false, in.Origin
		reached, err := s.read(ctx, from, func(stored storedAnswer) {
			isOlder = isOlder || stored.at.Before(in.timeAt(s).Add(-maxClockSkew))
			names, n := key.lookupNames(stored, in.Origin)
			for _, name := range names {
				if n >= seq {
					k.add(name, n, stored.at)
				} else if o.Seq = n; key.isNewerThan(o) || d.identities.isOurs(o, stored.id) {
					earlier[n] = true
				}
			}
		})
		if err != nil {
			return err
		}
		// The answer to an input was stored after its first delivery. At that time at most maxUnacked inputs before it were
		// unacknowledged. So behind the answer at most maxUnacked answers of this pipeline belong to inputs before it, and as
		// many to a stream of the same name that was there before.
		if isOlder || len(earlier) > 2*d.maxUnacked || isAll || !reached.created.Equal(from.created) {
			k.upTo = reached
			d.known[s] = k
			return nil
		}
	}
}
