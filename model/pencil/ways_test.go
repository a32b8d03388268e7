package pencil

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWaysByTheirCost: the algorithms that Partial tries, and their order, follow from what they cost.
func TestWaysByTheirCost(t *testing.T) {
	const d = 2
	least := krylovOrder(d, blockSize(d))
	for _, c := range []struct {
		name string
		m    Operator
		end  End
		want string
	}{
		{"fewer dimensions than a basis needs", ring(least-1, true), Min, ""},
		{"as many as it needs", ring(least, true), Min, "inverse products"},
		{"the largest values", ring(least, true), Max, "products"},
		{"no rows", products{ring(least, true)}, Min, "products"},
		{"an expensive factor", tangle(3000), Min, "products inverse"},
		{"a factor that is too large", tangle(20000), Min, "products"},
	} {
		n := c.m.Order()
		p := &partial{ctx: t.Context(), m: c.m, n: n, end: c.end, d: d, free: n}
		var names []string
		for _, w := range p.algorithms() {
			names = append(names, w.name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		note := strings.Join(p.notes, "")
		if n < 20000 {
			if note != "" {
				t.Errorf("%s: the note %q", c.name, note)
			}
			continue
		}
		var megabytes float64
		if _, err := fmt.Sscanf(note, "inverse: a factor of order 20000 would take %f MB, more than 1073", &megabytes); err !=
			nil || !(megabytes > 1074 && megabytes < 8e-6*20000*20000) {
			t.Errorf("%s: the note %q", c.name, note)
		}
	}
}

// TestWaysGiveUp: products alone go on for two vectors a row; half as many if a full decomposition comes next.
func TestWaysGiveUp(t *testing.T) {
	const n, d = 300, 2
	for _, brief := range []bool{false, true} {
		p := &partial{ctx: t.Context(), m: ring(n, true), n: n, end: Min, d: d, free: n, brief: brief}
		limit := 2 * n
		if brief {
			limit = n
		}
		ways := p.algorithms()
		_, err := ways[len(ways)-1].try()
		var count int
		if err == nil {
			t.Fatal("products find the small end of a ring")
		}
		if _, scan := fmt.Sscanf(err.Error(), "not converged after %d products", &count); scan != nil || count < limit ||
			count > limit+limit/10 {
			t.Errorf("brief %v: %v, want the end after %d", brief, err, limit)
		}
	}
}

// tangle joins each row with three others, which no order brings near to it.
func tangle(n int) *sparse {
	m, rng := newSparse(n), rand.New(rand.NewPCG(uint64(n), 3))
	for i := range n {
		for range 3 {
			if j := rng.IntN(n); j != i {
				m.join(i, j, 1)
			}
		}
	}
	return m
}
