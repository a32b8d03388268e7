package summaries

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestLedger: each message of three edges is entered once, although the edges send many messages twice, lose blocks,
// recreate their streams with clocks that jump, and return to an earlier stream. A reader that resumes from a stored
// ledger, at any position before or after it, gets the same ledger.
func TestLedger(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var came []*Received
		next, life := map[string]uint64{}, map[string]int64{}
		for seq := uint64(1); len(came) < 200; seq += 1 + r.Uint64N(5) {
			edge := []string{"a", "b", "c"}[r.IntN(3)]
			switch r.IntN(12) {
			case 0: // all is sent once more from some block on
				next[edge] -= min(next[edge], r.Uint64N(8))
			case 1: // its disk was lost, or another has its name
				life[edge] = r.Int64N(8)
				next[edge] = 0
			case 2:
				next[edge]++ // one block left its stream before it was summed up
			}
			n := next[edge]
			next[edge]++
			came = append(came, &Received{Edge: edge, Seq: seq,
				Notice: Notice{Created: life[edge], First: 10*n + 1, Last: 10*n + 10}})
		}
		all, want, once := &Ledger{}, []bool{}, map[string]bool{}
		var kept []string
		for _, one := range came {
			fresh, reached := !all.IsDuplicate(one), all.HasArrived(one)
			all.Add(one)
			key := fmt.Sprint(one.Edge, one.Created, one.First)
			if fresh && once[key] || fresh == reached || fresh == all.IsDuplicate(one) {
				t.Fatalf("seed %d: %s is entered, new: %t, before: %t", seed, key, fresh, once[key])
			}
			once[key] = true
			want = append(want, fresh)
			text, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, string(text))
		}
		for range 20 {
			l := &Ledger{}
			if err := json.Unmarshal([]byte(kept[r.IntN(len(kept))]), l); err != nil {
				t.Fatal(err)
			}
			from := r.IntN(len(came))
			for from > 0 && came[from].Seq >= l.Next {
				from-- // no reader resumes after what was entered
			}
			for i := from; i < len(came); i++ {
				if fresh := !l.IsDuplicate(came[i]); fresh != want[i] {
					t.Fatalf("seed %d: from place %d on, the message at %d is new: %t, and was: %t; %+v", seed, came[from].Seq,
						came[i].Seq, fresh, want[i], l)
				}
				l.Add(came[i])
			}
		}
	}
}

// TestLedgerCounts: what was passed over is counted where it shows, what came before is not, and neither is what was
// refused.
func TestLedgerCounts(t *testing.T) {
	t.Parallel()
	l := &Ledger{}
	for i, c := range []struct {
		created     int64
		first, last uint64
		refused     bool
		fresh       bool
		missing     uint64
	}{{1, 31, 40, false, true, 0}, {1, 41, 50, false, true, 0}, {1, 31, 40, false, false, 0}, {1, 71, 80, false, true, 20},
		{1, 75, 84, false, false, 0}, {0, 91, 100, false, true, 0}, {2, 11, 20, false, true, 0}, {2, 21, 30, false, true, 0},
		{1, 91, 100, true, true, 0}, {1, 111, 120, false, true, 20}, {0, 91, 100, false, false, 0},
		{0, 101, 110, false, true, 0},
		{9, 1, 1 << 31, true, true, 0}, {9, 1, 10, false, true, 0}} {
		one := &Received{Edge: "a", Seq: uint64(i + 1), Notice: Notice{Created: c.created, First: c.first, Last: c.last}}
		fresh, missing := !l.IsDuplicate(one), uint64(0)
		if c.refused {
			l.Skip(one)
		} else {
			missing = l.Add(one)
		}
		if fresh != c.fresh || missing != c.missing || l.Next != one.Seq+1 {
			t.Errorf("messages %d to %d of stream %d are new: %t, behind %d that are missing; want %t, %d",
				c.first, c.last, c.created,
				fresh, missing, c.fresh, c.missing)
		}
	}
}

// TestLedgerBounds: a ledger stays small however often an edge restarts and sends its messages again, and never reports
// a message as new that had arrived before.
func TestLedgerBounds(t *testing.T) {
	t.Parallel()
	l, seq := &Ledger{}, uint64(0)
	arrive := func(created int64, n uint64) *Received {
		seq++
		return &Received{Edge: "a", Seq: seq, Notice: Notice{Created: created, First: 10*n + 1, Last: 10*n + 10}}
	}
	var again []*Received
	for n := range uint64(5 * maxDuplicates) {
		l.Add(arrive(0, n))
		again = append(again, arrive(0, n))
		l.Add(again[n])
	}
	for _, one := range again {
		if !l.IsDuplicate(one) {
			t.Fatalf("message %d of %d had arrived before, and is reported as new", one.Seq, seq)
		}
	}
	for created := range int64(5 * maxStreams) {
		l.Add(arrive(created, 5*maxDuplicates))
		l.Add(arrive(0, 5*maxDuplicates+uint64(created))) // this one continues
	}
	if n, f := len(l.Edges["a"]), l.progress("a", 0); n != maxStreams || f == nil || len(f.Duplicates) > maxDuplicates {
		t.Errorf("%d streams of an edge are known, of the first: %+v", n, f)
	}
	other := &Ledger{}
	other.Merge(l)
	for _, f := range l.Edges["a"] {
		one := arrive(f.Created, (f.Last-1)/10)
		if !other.HasArrived(one) || other.IsDuplicate(&Received{Edge: "b", Seq: 1, Notice: one.Notice}) {
			t.Errorf("joined, a ledger says %+v of stream %d", other, f.Created)
		}
	}
}

// TestDamagedLedger: a stored ledger whose fields contradict each other is used, and stays bounded.
func TestDamagedLedger(t *testing.T) {
	t.Parallel()
	l := &Ledger{Edges: map[string][]StreamProgress{"a": make([]StreamProgress, 2*maxStreams)}}
	l.Edges["a"][0] = StreamProgress{Last: math.MaxUint64, Open: true}
	l.Edges["a"][1] = StreamProgress{Created: 1, Last: 5, Duplicates: make([]Range, 2*maxDuplicates)}
	for created := range int64(3) {
		one := &Received{Edge: "a", Seq: uint64(created + 1), Notice: Notice{Created: created, First: 1, Last: 5}}
		if l.Add(one); l.Next != one.Seq+1 || !l.HasArrived(one) {
			t.Errorf("stream %d: the ledger is %+v", created, l)
		}
	}
	if n := len(l.Edges["a"]); n > maxStreams {
		t.Errorf("%d streams are known", n)
	}
	if f := l.progress("a", 1); f != nil && len(f.Duplicates) > maxDuplicates {
		t.Errorf("%d ranges are known", len(f.Duplicates))
	}
}
