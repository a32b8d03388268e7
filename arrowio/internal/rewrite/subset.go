package rewrite

import (
	"math"
	"slices"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// A subset collects the ranges of a child, of view data or of a dictionary that rows use, and maps their positions to
// those in the output; overlapping ranges are copied once. Ascending ranges need no extra memory. For others it keeps a
// table if the domain is not much larger than what is used, and sorts them otherwise.
type subset struct {
	domain int // ranges are within 0 and domain
	dense  bool
	table  []int32 // by the start of a range, its largest end; after complete, by position, that in the output
	spans  []ipc.Span
	sorted bool
	base   []int // output position where each span begins
	at     int   // the span that position used last
	total  int
}

// newSubset returns a subset for about this many ranges.
func newSubset(domain, pieces int) *subset {
	most := max(4*pieces, min(16*pieces, 4<<20)) + 4096
	return &subset{domain: domain, dense: domain <= most && domain < math.MaxInt32, sorted: true}
}

func (g *subset) add(lo, hi int) {
	last := ipc.Span{}
	if n := len(g.spans); n > 0 {
		last = g.spans[n-1]
	}
	switch {
	case lo >= hi || last.Lo <= lo && hi <= last.Hi:
	case g.table != nil:
		g.table[lo] = max(g.table[lo], int32(hi))
	case g.sorted && last.Hi <= lo:
		g.spans = ipc.JoinSpans(g.spans, lo, hi)
	case g.dense:
		g.table = make([]int32, g.domain)
		for _, s := range g.spans {
			g.table[s.Lo] = int32(s.Hi)
		}
		g.spans = nil
		g.table[lo] = max(g.table[lo], int32(hi))
	default:
		g.sorted = false
		g.spans = append(g.spans, ipc.Span{Lo: lo, Hi: hi})
	}
}

// complete merges ranges that overlap or touch.
func (g *subset) complete() {
	if !g.sorted {
		slices.SortFunc(g.spans, func(a, b ipc.Span) int { return a.Lo - b.Lo })
		pieces := g.spans
		g.spans = pieces[:0]
		for _, s := range pieces {
			g.extend(s.Lo, s.Hi)
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
			for p := s.Lo; p < s.Hi; p++ {
				g.table[p] = int32(g.total + p - s.Lo)
			}
		}
		g.total += s.Hi - s.Lo
	}
}

func (g *subset) extend(lo, hi int) {
	if n := len(g.spans); n > 0 && lo <= g.spans[n-1].Hi {
		g.spans[n-1].Hi = max(g.spans[n-1].Hi, hi)
		return
	}
	g.spans = append(g.spans, ipc.Span{Lo: lo, Hi: hi})
}

// position returns the output position of p, which must be in one of the ranges.
func (g *subset) position(p int) int {
	if g.table != nil {
		return int(g.table[p])
	}
	if s := g.spans[g.at]; s.Lo > p || s.Hi <= p {
		if g.at+1 < len(g.spans) && g.spans[g.at+1].Lo <= p && p < g.spans[g.at+1].Hi {
			g.at++
		} else {
			g.at, _ = slices.BinarySearchFunc(g.spans, p+1, func(s ipc.Span, p int) int { return s.Hi - p })
		}
	}
	return g.base[g.at] + p - g.spans[g.at].Lo
}
