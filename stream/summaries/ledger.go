package summaries

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Ledger says of which of an edge's messages summaries have arrived, so that none is learned twice. What it says of a place
// of the hub's stream follows from what stands before that, so that all who read the stream come to the same.
type Ledger struct {
	Next    uint64             `json:"next"`              // all before it is entered
	Edges   map[string]Reached `json:"edges"`             // as of that place
	Doubled []Doubled          `json:"doubled,omitempty"` // before it, in order
}

// Reached is how far the summaries of an edge have come: in the order of its stream, those of a later stream after those of
// an earlier one.
type Reached struct {
	Created int64  `json:"created"`
	Last    uint64 `json:"last"`
}

// Doubled says that whatever came from an edge between two places, both included, had arrived before.
type Doubled struct {
	Edge  string `json:"edge"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Open  bool   `json:"open,omitempty"` // nothing new came from the edge since
}

// mostDoubled bounds the ledger: a stream that is sent once more from its begin is one.
const mostDoubled = 256

// Enter tells whether what has arrived is new, and how many messages of its edge's stream were passed over before it.
func (l *Ledger) Enter(one *Arrival) (fresh bool, missing uint64) {
	if one.Seq < l.Next {
		for _, d := range l.Doubled {
			if d.Edge == one.Edge && d.First <= one.Seq && one.Seq <= d.Last {
				return false, 0
			}
		}
		return true, 0
	}
	l.Next = one.Seq + 1
	at, known := l.Edges[one.Edge]
	if known && (one.Created < at.Created || one.Created == at.Created && one.First <= at.Last) {
		l.double(one)
		return false, 0
	}
	if known && one.Created == at.Created {
		missing = one.First - at.Last - 1
	}
	if l.Edges == nil {
		l.Edges = map[string]Reached{}
	}
	l.Edges[one.Edge] = Reached{one.Created, one.Last}
	for i := range l.Doubled {
		l.Doubled[i].Open = l.Doubled[i].Open && l.Doubled[i].Edge != one.Edge
	}
	return true, missing
}

// double adds to what of an edge had arrived before: to the last entry where nothing new came from it since.
func (l *Ledger) double(one *Arrival) {
	for i := range l.Doubled {
		if d := &l.Doubled[i]; d.Edge == one.Edge && d.Open {
			d.Last = one.Seq
			return
		}
	}
	if len(l.Doubled) == mostDoubled {
		l.Doubled = slices.Delete(l.Doubled, 0, 1)
	}
	l.Doubled = append(l.Doubled, Doubled{one.Edge, one.Seq, one.Seq, true})
}

// ledgerKey is that of a pipeline, of one life of the hub's stream. The ledger does not depend on settings.
func ledgerKey(pipeline string, created time.Time) string {
	return pipeline + ".edges." + strconv.FormatInt(created.UnixNano(), 36)
}

// Ledger is what was kept last; an empty one where nothing was, which is filled from the begin of the stream.
func (b *Bucket) Ledger(ctx context.Context, pipeline string, created time.Time) (*Ledger, error) {
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

// KeepLedger keeps it.
func (b *Bucket) KeepLedger(ctx context.Context, pipeline string, created time.Time, l *Ledger) error {
	value, err := json.Marshal(l)
	if err == nil {
		_, err = b.js.PublishMsg(ctx, &nats.Msg{Subject: b.prefix + subject(ledgerKey(pipeline, created)), Data: value})
	}
	return err
}
