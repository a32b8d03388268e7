package summaries

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/embedd/embedd/internal/natsx"
	"github.com/nats-io/nats.go/jetstream"
)

// Ledger records for which messages of each edge summaries have arrived, so that none is used twice. Its content at a
// position of the hub's stream is determined by the messages before it, so all readers agree.
type Ledger struct {
	Next  uint64                      `json:"next"`  // all before it is entered
	Edges map[string][]StreamProgress `json:"edges"` // as of that place
}

// StreamProgress is the progress of the summaries of one stream of an edge. Streams of the same name are distinguished
// by creation time, whose order means nothing: clocks are set, and two servers may share a name.
type StreamProgress struct {
	Created    int64   `json:"created"`
	Last       uint64  `json:"last"`              // sequence of the edge's stream up to which summaries were entered
	Skipped    uint64  `json:"passed,omitempty"`  // messages after Last whose summaries were refused
	Seq        uint64  `json:"seq"`               // sequence, in the hub's stream, of the newest summary entered
	Duplicates []Range `json:"doubled,omitempty"` // positions of what had arrived before, in order
	Open       bool    `json:"open,omitempty"`    // nothing new has arrived since the last of these
}

// Range is a range of positions in the hub's stream, both included.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

const (
	// maxDuplicates bounds the ledger: a stream that is sent again from its beginning is one range. Beyond it the oldest
	// two ranges are merged: a reader that starts there skips what is between them, and never uses anything twice.
	maxDuplicates = 64
	// maxStreams is how many streams of an edge are known, those that sent most recently.
	maxStreams = 16
)

// progress returns that of a stream of an edge; nil if it is new.
func (l *Ledger) progress(edge string, created int64) *StreamProgress {
	all := l.Edges[edge]
	i := slices.IndexFunc(all, func(f StreamProgress) bool { return f.Created == created })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// IsNewStream reports whether a summary comes from a stream of its edge from which no earlier one came.
func (l *Ledger) IsNewStream(one *Received) bool {
	return len(l.Edges[one.Edge]) > 0 && l.progress(one.Edge, one.Created) == nil
}

// HasArrived reports whether a summary of these messages has arrived before.
func (l *Ledger) HasArrived(one *Received) bool {
	f := l.progress(one.Edge, one.Created)
	return f != nil && one.First <= f.Last
}

// IsDuplicate reports whether these messages had arrived before this position.
func (l *Ledger) IsDuplicate(one *Received) bool {
	if one.Seq >= l.Next {
		return l.HasArrived(one)
	}
	f := l.progress(one.Edge, one.Created)
	return f != nil && slices.ContainsFunc(f.Duplicates,
		func(p Range) bool { return p.First <= one.Seq && one.Seq <= p.Last })
}

// Add enters a summary that can be used, and returns how many messages of the edge's stream are missing before it. It
// ignores one that is entered already.
func (l *Ledger) Add(one *Received) (missing uint64) {
	if one.Seq < l.Next {
		return 0
	}
	l.Next = one.Seq + 1
	f := l.progress(one.Edge, one.Created)
	switch {
	case f == nil:
		f = l.begin(one.Edge, one.Created)
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

// Skip enters a summary that cannot be used. It may be sent again.
func (l *Ledger) Skip(one *Received) {
	if one.Seq < l.Next {
		return
	}
	l.Next = one.Seq + 1
	if f := l.progress(one.Edge, one.Created); f != nil && one.First > f.Last {
		f.Skipped += one.Last - one.First + 1
	}
}

// begin adds another stream of an edge, in place of the oldest if there are too many.
func (l *Ledger) begin(edge string, created int64) *StreamProgress {
	all := l.Edges[edge]
	if len(all) >= maxStreams {
		oldest := slices.MinFunc(all, func(f, g StreamProgress) int { return cmp.Compare(f.Seq, g.Seq) })
		all = slices.DeleteFunc(all, func(f StreamProgress) bool { return f.Created == oldest.Created })
	}
	if l.Edges == nil {
		l.Edges = map[string][]StreamProgress{}
	}
	l.Edges[edge] = append(all, StreamProgress{Created: created})
	return l.progress(edge, created)
}

// addDuplicate adds a position to the duplicates, to the last range if nothing new came since.
func (f *StreamProgress) addDuplicate(seq uint64) {
	f.Seq = seq
	n := len(f.Duplicates)
	if f.Open && n > 0 {
		f.Duplicates[n-1].Last = seq
		return
	}
	if surplus := n - maxDuplicates + 1; surplus > 0 {
		f.Duplicates[surplus].First = f.Duplicates[0].First
		f.Duplicates = slices.Delete(f.Duplicates, 0, surplus)
	}
	f.Duplicates, f.Open = append(f.Duplicates, Range{seq, seq}), true
}

// Merge adds the progress in the ledger of an earlier stream of the hub, whose positions mean nothing in this one.
func (l *Ledger) Merge(other *Ledger) {
	for edge, all := range other.Edges {
		for _, f := range all {
			here := l.progress(edge, f.Created)
			if here == nil {
				here = l.begin(edge, f.Created)
			}
			here.Last = max(here.Last, f.Last)
		}
	}
}

// ledgers is the key below which a pipeline has its ledgers, one for each incarnation of the hub's stream. They do not
// depend on settings.
func ledgers(pipeline string) string { return pipeline + ".edges" }

func ledgerKey(pipeline string, created time.Time) string {
	return ledgers(pipeline) + "." + timeKey(created)
}

// HasLedger reports whether a pipeline has ever used what edges sent.
func HasLedger(ctx context.Context, js jetstream.JetStream, pipeline string) (bool, error) {
	keys, err := natsx.SubjectEnds(ctx, js, Stream, bucketRoot+ledgers(pipeline)+".")
	if natsx.IsNotFound(err) {
		return false, nil
	}
	return len(keys) > 0, err
}

// LoadLedger returns the stored ledger, or an empty one, which is filled from the beginning of the stream.
func (b *Bucket) LoadLedger(ctx context.Context, pipeline string, created time.Time) (*Ledger, error) {
	l, err := getJSON[Ledger](ctx, &b.store, ledgerKey(pipeline, created))
	if l == nil {
		l = &Ledger{}
	}
	return l, err
}

// SaveLedger stores the ledger.
func (b *Bucket) SaveLedger(ctx context.Context, pipeline string, created time.Time, l *Ledger) error {
	_, err := b.putJSON(ctx, ledgerKey(pipeline, created), l)
	return err
}
