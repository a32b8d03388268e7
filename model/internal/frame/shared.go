package frame

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/moments"
)

// shared is what fits of several methods on the same rows have in common.
type shared struct {
	x           *mat.Dense       // the rows
	own, others *graph.Neighbors // of each row in its class and in other classes
	same, other int              // length of these lists
	scratch     *Scratch
}

// Scratch is memory that fits reuse, one after the other. The zero value is ready to use.
type Scratch struct {
	large   []float64 // for LocalScatters, Geodesics or outputs, one at a time
	Squares []float64 // for matrices of columns
	samples []float64 // of the task that was loaded last
	summary *moments.Summary
	of      *Rows // the rows of the summary
}

// summaryOf returns the moments of rows. Where fits share memory, rows that are loaded again, at another scale, are not
// summed again.
func summaryOf(t *Task, p *Rows, sum func() *moments.Summary) *moments.Summary {
	if t.shared == nil || t.Method.SecondByClass {
		return sum()
	}
	s := t.shared.scratch
	if s.of != p {
		s.of, s.summary = p, sum()
	}
	out := *s.summary
	out.Total = mat.NewSymDense(len(out.Mean), nil)
	out.Total.CopySym(s.summary.Total) // a task scales it
	return &out
}

// Share makes the fits of copies of a task share intermediate results, and memory with the fits of other tasks. Load
// the task afterwards. The fits must not run concurrently, nor after another task is loaded in the same memory.
func Share(t *Task, s *Scratch) { t.shared = &shared{scratch: s} }

// ScratchOf is the memory that the fit shares with others, or new memory.
func ScratchOf(t *Task) *Scratch {
	if t.shared == nil {
		return &Scratch{}
	}
	return t.shared.scratch
}

// Grown returns the first n numbers of a buffer, with undefined values. It replaces a buffer that is too short.
func Grown(buffer *[]float64, n int) []float64 {
	if cap(*buffer) < n {
		*buffer = make([]float64, n)
	}
	return (*buffer)[:n]
}

// Intermediates are what a fit computes that does not depend on the ridge, nor on a parameter that cross-validation
// chooses.
type Intermediates struct {
	ratio *Ratio
	cache any
}

// IntermediatesOf are those of a fit; it reports whether there are any.
func IntermediatesOf(t *Task) (v Intermediates, ok bool) {
	return Intermediates{t.ratio, t.Cache}, t.ratio != nil || t.Cache != nil
}

// Reuse makes a fit use the intermediates of another one on the same rows.
func Reuse(t *Task, v Intermediates) { t.ratio, t.Cache = v.ratio, v.cache }

// Lists that are searched for several methods have at least the lengths that their defaults ask for, so that one search
// is enough.
const (
	sharedSame  = 7
	sharedOther = 20
)

// nearestByClass is graph.NearestByClass of the rows. Where fits share lists, they take the first of longer ones.
func nearestByClass(ctx context.Context, t *Task, same, other int) (own, others *graph.Neighbors) {
	s := t.shared
	if s == nil || s.x != t.X {
		return fail.Must2(graph.NearestByClass(ctx, t.X, t.Rows.Y, same, other))
	}
	moreSame, moreOther := 0, 0
	if same > s.same {
		moreSame = max(same, sharedSame)
	}
	if other > s.other {
		moreOther = max(other, sharedOther)
	}
	if moreSame+moreOther > 0 {
		own, others = fail.Must2(graph.NearestByClass(ctx, t.X, t.Rows.Y, moreSame, moreOther))
	}
	if moreSame > 0 {
		s.own, s.same = own, moreSame
	}
	if moreOther > 0 {
		s.others, s.other = others, moreOther
	}
	if other > 0 {
		others = s.others.First(other)
	}
	return s.own.First(same), others
}
