package arrowio

import (
	"math"
	"slices"
)

// A gathering is the pieces of a child, of data or of a dictionary that rows use: each is taken once, however many use
// it and in whatever order. Pieces that come in order cost nothing more; of others it keeps a table where the whole is
// not much larger than what is read of it, and sorts them where it is.
type gathering struct {
	domain int // pieces are within 0 and this
	dense  bool
	table  []int32 // by where a piece begins, the furthest end; once complete, by place, where that stands
	spans  []span
	sorted bool
	base   []int // where each span begins in what is gathered
	at     int   // the span that was last asked for
	total  int
}

// newGathering expects so many pieces.
func newGathering(domain, pieces int) *gathering {
	most := max(4*pieces, min(16*pieces, 4<<20)) + 4096
	return &gathering{domain: domain, dense: domain <= most && domain < math.MaxInt32, sorted: true}
}

func (g *gathering) add(lo, hi int) {
	last := span{}
	if n := len(g.spans); n > 0 {
		last = g.spans[n-1]
	}
	switch {
	case lo >= hi || last.lo <= lo && hi <= last.hi:
	case g.table != nil:
		g.table[lo] = max(g.table[lo], int32(hi))
	case g.sorted && last.hi <= lo:
		g.spans = join(g.spans, lo, hi)
	case g.dense:
		g.table = make([]int32, g.domain)
		for _, s := range g.spans {
			g.table[s.lo] = int32(s.hi)
		}
		g.spans = nil
		g.table[lo] = max(g.table[lo], int32(hi))
	default:
		g.sorted = false
		g.spans = append(g.spans, span{lo, hi})
	}
}

// complete joins the pieces that overlap or touch.
func (g *gathering) complete() {
	if !g.sorted {
		slices.SortFunc(g.spans, func(a, b span) int { return a.lo - b.lo })
		pieces := g.spans
		g.spans = pieces[:0]
		for _, s := range pieces {
			g.extend(s.lo, s.hi)
		}
	}
	for lo, hi := range g.table {
		if hi > 0 {
			g.extend(lo, int(hi))
		}
	}
	g.base = make([]int, len(g.spans))
	for k, s := range g.spans {
		g.base[k] = g.total
		if g.table != nil {
			for p := s.lo; p < s.hi; p++ {
				g.table[p] = int32(g.total + p - s.lo)
			}
		}
		g.total += s.hi - s.lo
	}
}

func (g *gathering) extend(lo, hi int) {
	if n := len(g.spans); n > 0 && lo <= g.spans[n-1].hi {
		g.spans[n-1].hi = max(g.spans[n-1].hi, hi)
		return
	}
	g.spans = append(g.spans, span{lo, hi})
}

// place is where what stood at p, in one of the pieces, stands in what is gathered.
func (g *gathering) place(p int) int {
	if g.table != nil {
		return int(g.table[p])
	}
	if s := g.spans[g.at]; s.lo > p || s.hi <= p {
		if g.at+1 < len(g.spans) && g.spans[g.at+1].lo <= p && p < g.spans[g.at+1].hi {
			g.at++
		} else {
			g.at, _ = slices.BinarySearchFunc(g.spans, p+1, func(s span, p int) int { return s.hi - p })
		}
	}
	return g.base[g.at] + p - g.spans[g.at].lo
}
