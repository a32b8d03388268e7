package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Ledger says of which of an edge's messages summaries have arrived, so that none is learned twice. What it says of a place
// of the hub's stream follows from what stands before that, so that all who read the stream come to the same.
type Ledger struct {
	Next  uint64                      `json:"next"`  // all before it is entered
	Edges map[string][]StreamProgress `json:"edges"` // as of that place
}

// StreamProgress is how far the summaries of one stream of an edge have come: of the stream that was made at that time under the
// edge's name. Those of several stand side by side, whichever was made first: clocks are set, and two servers may have one
// name.
type StreamProgress struct {
	Created    int64   `json:"created"`
	Last       uint64  `json:"last"`              // message of that stream
	Skipped    uint64  `json:"passed,omitempty"`  // messages behind it whose summaries were refused
	Seq        uint64  `json:"seq"`               // place of the newest that was entered
	Duplicates []Range `json:"doubled,omitempty"` // where stands what had arrived before, in order
	Open       bool    `json:"open,omitempty"`    // nothing new came since the last of these
}

// Range are those of a stretch of the hub's stream, both included.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

const (
	// mostDoubled bounds the ledger: a stream that is sent once more from its begin is one stretch. The oldest two become
	// one then: what is between them is not learned again by who begins there, and never twice.
	maxDuplicates = 64
	// mostLives of an edge are known, those from which something came last.
	maxStreams = 16
)

// progress is that of what has arrived; nil where nothing of it was entered.
func (l *Ledger) progress(one *Received) *StreamProgress {
	for i := range l.Edges[one.Edge] {
		if f := &l.Edges[one.Edge][i]; f.Created == one.Created {
			return f
		}
	}
	return nil
}

// IsNewStream tells whether what has arrived is of another stream than all that came from its edge before.
func (l *Ledger) IsNewStream(one *Received) bool {
	return len(l.Edges[one.Edge]) > 0 && l.progress(one) == nil
}

// HasArrived tells whether what has arrived had arrived before, wherever it stands.
func (l *Ledger) HasArrived(one *Received) bool {
	f := l.progress(one)
	return f != nil && one.First <= f.Last
}

// IsDuplicate tells whether what stands at a place had arrived before that.
func (l *Ledger) IsDuplicate(one *Received) bool {
	if one.Seq >= l.Next {
		return l.HasArrived(one)
	}
	f := l.progress(one)
	return f != nil && slices.ContainsFunc(f.Duplicates, func(p Range) bool { return p.First <= one.Seq && one.Seq <= p.Last })
}

// Add enters what can be learned from, and tells how many messages of its edge's stream were passed over before it. What
// is entered already it leaves as it is.
func (l *Ledger) Add(one *Received) (missing uint64) {
	if one.Seq < l.Next {
		return 0
	}
	l.Next = one.Seq + 1
	f := l.progress(one)
	switch {
	case f == nil:
		f = l.begin(one)
	case one.First <= f.Last:
		f.addDuplicate(one.Seq)
		return 0
	default:
		missing = one.First - f.Last - 1
		missing -= min(missing, f.Skipped)
	}
	f.Last, f.Skipped, f.Seq, f.Open = one.Last, 0, one.Seq, false
	return missing
}

// Skip enters what cannot be learned from. It may come once more.
func (l *Ledger) Skip(one *Received) {
	if one.Seq < l.Next {
		return
	}
	l.Next = one.Seq + 1
	if f := l.progress(one); f != nil && one.First > f.Last {
		f.Skipped += one.Last - one.First + 1
	}
}

// begin makes room for another life of an edge.
func (l *Ledger) begin(one *Received) *StreamProgress {
	all := l.Edges[one.Edge]
	if len(all) == maxStreams {
		oldest := slices.IndexFunc(all, func(f StreamProgress) bool {
			return !slices.ContainsFunc(all, func(g StreamProgress) bool { return g.Seq < f.Seq })
		})
		all = slices.Delete(all, oldest, oldest+1)
	}
	if l.Edges == nil {
		l.Edges = map[string][]StreamProgress{}
	}
	all = append(all, StreamProgress{Created: one.Created})
	l.Edges[one.Edge] = all
	return &all[len(all)-1]
}

// addDuplicate adds a place to what had arrived before: to the last stretch of it where nothing new came since.
func (f *StreamProgress) addDuplicate(seq uint64) {
	f.Seq = seq
	if f.Open {
		f.Duplicates[len(f.Duplicates)-1].Last = seq
		return
	}
	if len(f.Duplicates) == maxDuplicates {
		f.Duplicates[1].First = f.Duplicates[0].First
		f.Duplicates = slices.Delete(f.Duplicates, 0, 1)
	}
	f.Duplicates, f.Open = append(f.Duplicates, Range{seq, seq}), true
}

// Merge adds how far another ledger has come, of another life of the hub's stream. The places in that mean nothing in this.
func (l *Ledger) Merge(other *Ledger) {
	for edge, all := range other.Edges {
		for _, f := range all {
			one := &Received{Edge: edge, Notice: Notice{Created: f.Created}}
			here := l.progress(one)
			if here == nil {
				here = l.begin(one)
			}
			here.Last = max(here.Last, f.Last)
		}
	}
}

// ledgers are the keys of a pipeline's ledgers, that of a life of the hub's stream behind them. They do not depend on
// settings.
func ledgers(pipeline string) string { return pipeline + ".edges." }

func ledgerKey(pipeline string, created time.Time) string {
	return ledgers(pipeline) + strconv.FormatInt(created.UnixNano(), 36)
}

// HasLedger tells whether a pipeline has ever learned from what edges sent.
func HasLedger(ctx context.Context, js jetstream.JetStream, pipeline string) (bool, error) {
	s, err := js.Stream(ctx, Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject(ledgers(pipeline)+">")))
	return err == nil && len(info.State.Subjects) > 0, err
}

// LoadLedger is what was kept last; an empty one where nothing was, which is filled from the begin of the stream.
func (b *Bucket) LoadLedger(ctx context.Context, pipeline string, created time.Time) (*Ledger, error) {
	l := &Ledger{}
	m, err := b.get(ctx, ledgerKey(pipeline, created))
	if m == nil || err != nil {
		return l, err
	}
	if err := json.Unmarshal(m.Data, l); err != nil {
		return &Ledger{}, nil
	}
	return l, nil
}

// SaveLedger keeps it.
func (b *Bucket) SaveLedger(ctx context.Context, pipeline string, created time.Time, l *Ledger) error {
	value, err := json.Marshal(l)
	if err == nil {
		_, err = b.js.PublishMsg(ctx, &nats.Msg{Subject: b.prefix + subject(ledgerKey(pipeline, created)), Data: value})
	}
	return err
}
