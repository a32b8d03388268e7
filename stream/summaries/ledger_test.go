package summaries

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestLedger: of what three edges send each message is entered once, though they send much again, lose blocks and begin
// anew; and who goes on from a ledger that was kept, from any place before or behind it, comes to the same.
func TestLedger(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var came []*Arrival
		next, life := map[string]uint64{}, map[string]int64{}
		for seq := uint64(1); len(came) < 200; seq += 1 + r.Uint64N(5) {
			edge := []string{"a", "b", "c"}[r.IntN(3)]
			switch r.IntN(12) {
			case 0: // all is sent once more from some block on
				next[edge] -= min(next[edge], r.Uint64N(8))
			case 1: // its disk was lost
				life[edge]++
				next[edge] = 0
			case 2:
				next[edge]++ // one block left its stream before it was summed up
			}
			n := next[edge]
			next[edge]++
			came = append(came, &Arrival{Edge: edge, Seq: seq,
				Notice: Notice{Created: life[edge], First: 10*n + 1, Last: 10*n + 10}})
		}
		all, want, once := &Ledger{}, []bool{}, map[string]bool{}
		var kept []string
		for _, one := range came {
			fresh, _ := all.Enter(one)
			key := fmt.Sprint(one.Edge, one.Created, one.First)
			if fresh && once[key] {
				t.Fatalf("seed %d: %s is entered twice", seed, key)
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
				from-- // nobody begins behind what was entered
			}
			for i := from; i < len(came); i++ {
				if fresh, _ := l.Enter(came[i]); fresh != want[i] {
					t.Fatalf("seed %d: from place %d on, what stands at %d is new: %t, and was: %t; %+v", seed, came[from].Seq,
						came[i].Seq, fresh, want[i], l)
				}
			}
		}
	}
}

// TestLedgerCounts: what was passed over is counted where it shows, and what came before is not.
func TestLedgerCounts(t *testing.T) {
	t.Parallel()
	l := &Ledger{}
	for i, c := range []struct {
		created     int64
		first, last uint64
		fresh       bool
		missing     uint64
	}{{1, 31, 40, true, 0}, {1, 41, 50, true, 0}, {1, 31, 40, false, 0}, {1, 71, 80, true, 20}, {1, 75, 84, false, 0},
		{0, 91, 100, false, 0}, {2, 11, 20, true, 0}, {2, 21, 30, true, 0}, {1, 91, 100, false, 0}} {
		fresh, missing := l.Enter(&Arrival{Edge: "a", Seq: uint64(i + 1), Notice: Notice{Created: c.created, First: c.first, Last: c.last}})
		if fresh != c.fresh || missing != c.missing {
			t.Errorf("messages %d to %d of stream %d are new: %t, behind %d that are missing; want %t, %d", c.first, c.last, c.created,
				fresh, missing, c.fresh, c.missing)
		}
	}
}
