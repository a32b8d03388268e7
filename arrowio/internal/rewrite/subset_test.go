package rewrite

import (
	"math/rand/v2"
	"testing"
)

// TestSubsetPositions compares the positions with those that a set of all used entries has, in order: for ranges that
// ascend, that overlap, and in any order, with a table and without.
func TestSubsetPositions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		domain := 1 + rng.IntN(60)
		g := newSubset(domain, 4)
		g.dense = rng.IntN(2) == 0
		used := make([]bool, domain)
		at, ascending := 0, rng.IntN(3) == 0
		for range rng.IntN(12) {
			if !ascending {
				at = rng.IntN(domain)
			}
			lo := at
			hi := min(domain, lo+rng.IntN(6))
			at = hi
			g.add(lo, hi)
			for p := lo; p < hi; p++ {
				used[p] = true
			}
		}
		g.complete()
		var of []int // entries in the order of the output
		for p, u := range used {
			if u {
				of = append(of, p)
			}
		}
		if g.total != len(of) {
			t.Fatalf("%d entries, want %d", g.total, len(of))
		}
		for _, k := range rng.Perm(len(of)) {
			if got := g.position(of[k]); got != k {
				t.Fatalf("entry %d is at %d, want %d", of[k], got, k)
			}
		}
		covered := 0
		for k, s := range g.spans {
			covered += s.Hi - s.Lo
			if k > 0 && s.Lo <= g.spans[k-1].Hi {
				t.Fatalf("spans %v touch", g.spans)
			}
		}
		if covered != g.total {
			t.Fatalf("spans %v have %d entries of %d", g.spans, covered, g.total)
		}
	}
}

// TestSubsetTable: a table is kept only where it is not much larger than what is used.
func TestSubsetTable(t *testing.T) {
	for _, c := range []struct {
		domain, pieces int
		dense          bool
	}{
		{4096, 0, true}, {4097, 0, false}, // a small one always
		{16*1000 + 4096, 1000, true}, {16*1000 + 4097, 1000, false}, // 16 numbers of 4 bytes for each range
		{4<<20 + 4096, 1 << 19, true}, {4<<20 + 4097, 1 << 19, false}, // up to 16 MB
		{4<<21 + 4096, 1 << 21, true}, {4<<21 + 4097, 1 << 21, false}, // then 4 for each range
		{1 << 31, 1 << 31, false}, // positions are 32 bits
	} {
		if got := newSubset(c.domain, c.pieces).dense; got != c.dense {
			t.Errorf("a domain of %d with %d ranges: dense is %v", c.domain, c.pieces, got)
		}
	}
}
