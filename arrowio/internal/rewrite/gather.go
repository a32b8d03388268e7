package rewrite

import (
	"math"
	"slices"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// A gathering is the pieces of a child, of data or of a dictionary that rows use: each is taken once, however many use
// it and in whatever order. Pieces that come in order cost nothing more; of others it keeps a table where the whole is
// not much larger than what is read of it, and sorts them where it is.
type gathering struct {
	domain int // pieces are within 0 and this
	dense  bool
	table  []int32 // by where a piece begins, the furthest end; once complete, by place, where that stands
	spans  []ipc.Span
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

// complete joins the pieces that overlap or touch.
func (g *gathering) complete() {
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

func (g *gathering) extend(lo, hi int) {
	if n := len(g.spans); n > 0 && lo <= g.spans[n-1].Hi {
		g.spans[n-1].Hi = max(g.spans[n-1].Hi, hi)
		return
	}
	g.spans = append(g.spans, ipc.Span{Lo: lo, Hi: hi})
}

// place is where what stood at p, in one of the pieces, stands in what is gathered.
func (g *gathering) place(p int) int {
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
