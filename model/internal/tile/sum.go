package tile

import (
	"context"
	"fmt"
	"sync"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

const (
	panel     = 24 // numbers in a row of a panel
	blockRows = 8  // rows of the block that a kernel computes; its columns are those of a panel

	// Depth is the number of rows of the operands in one block of a sum.
	Depth = 256

	stripRows   = 4 * panel      // rows and columns of the result in one unit of work
	stripPanels = 6              // panels of columns in one unit of work
	widest      = 42 * stripRows // columns of an operand that a block packs, if they can be split
	packed      = 1 << 17        // numbers that one stage packs, unless a block has more: 1 MB
)

// Operand is K rows of M numbers, finite or not, given by one of Row, At and Column.
type Operand struct {
	K, M int

	Row func(dst []float64, k int) // writes row k to dst; called concurrently

	At     func(k int) []float64 // is row k
	Column func(j int) []float64 // is number j of all rows
	About  []float64             // subtracted from rows of At and Column; nil: 0
}

// Dense is the operand of rows of m numbers that are stride apart in data.
func Dense(data []float64, k, m, stride int) *Operand {
	return &Operand{K: k, M: m, At: func(i int) []float64 { return data[i*stride : i*stride+m] }}
}

// Columns is the operand whose row k is column k of data: m rows of it, stride apart.
func Columns(data []float64, k, m, stride int) *Operand {
	return &Operand{K: k, M: m, Column: func(j int) []float64 { return data[j*stride : j*stride+k] }}
}

// Sum is C += Alpha A'B, of operands with the same number of rows. C is row-major with Stride numbers per row. Upper
// leaves out what is below the diagonal, for symmetric results, as when B is A.
type Sum struct {
	C      []float64
	Stride int
	Alpha  float64
	A, B   *Operand
	Upper  bool
}

// Add computes all sums, each with a separate C, on as many cores as ctx allows. It finishes even if ctx ends: no sum
// is added in part. Between units of work of some tenths of a millisecond it calls ctx.Err: the context of a fit that
// runs next to a stream pauses in that call, to give the stream priority.
func Add(ctx context.Context, sums ...Sum) (err error) {
	defer parallel.Recover(&err, "product")
	paced := ctx
	ctx = context.WithoutCancel(ctx)
	work := 0.0
	for i := range sums {
		sums[i].check()
		work += float64(sums[i].A.K) * float64(sums[i].A.M) * float64(sums[i].B.M)
	}
	workers := parallel.WorkersFor(ctx, work)
	p := newPlan(sums, workers)
	if len(p.tasks) == 0 {
		return nil
	}
	buffer, _ := buffers.Get().(*[]float64)
	if buffer == nil {
		buffer = new([]float64)
	}
	defer buffers.Put(buffer)
	p.data = linalg.AlignedIn(buffer, p.size)
	return parallel.EachOn(ctx, workers, len(p.tasks), func(i int) {
		_ = paced.Err()
		p.do(i)
	})
}

// narrow splits the sums into ones with few rows and columns: what is packed at once grows with these. An entry of
// the result is made of the same products, in the same order.
func narrow(sums []Sum) []Sum {
	all := make([]Sum, 0, len(sums))
	for _, s := range sums {
		if s.Upper || s.A == s.B || s.A.M == 0 || s.B.M == 0 { // the result is larger than the operands, or empty
			all = append(all, s)
			continue
		}
		for i, a := range s.A.parts() {
			for j, b := range s.B.parts() {
				part := s
				part.C, part.A, part.B = s.C[i*widest*s.Stride+j*widest:], a, b
				all = append(all, part)
			}
		}
	}
	return all
}

// parts are at most widest columns each, or the whole if columns cannot be accessed individually.
func (o *Operand) parts() []*Operand {
	if o.M <= widest || o.Row != nil {
		return []*Operand{o}
	}
	var all []*Operand
	for from := 0; from < o.M; from += widest {
		part := *o
		part.M = min(widest, o.M-from)
		if o.Column != nil {
			part.Column = func(j int) []float64 { return o.Column(from + j) }
		} else {
			part.At = func(k int) []float64 { return o.At(k)[from:] }
			if o.About != nil {
				part.About = o.About[from:]
			}
		}
		all = append(all, &part)
	}
	return all
}

// check panics if the result has too little room: the kernels do not check bounds.
func (s *Sum) check() {
	rows, columns := s.A.M, s.B.M
	if rows > 0 && columns > 0 && (s.Stride < columns || len(s.C) < (rows-1)*s.Stride+columns) {
		panic(fmt.Sprintf("%d numbers, %d a row, for a product of %d x %d", len(s.C), s.Stride, rows, columns))
	}
}

var buffers sync.Pool // of *[]float64, for packed panels

// block is up to Depth rows of the operands of a sum, packed at at: the panels of A, then those of B.
type block struct {
	sum        *Sum
	from, rows int
	at         int
}

// height is the distance between its panels: a cache line more than they need, or all would start in one set of the
// cache.
func (k *block) height() int { return k.rows*panel + 8 }

// size is how many numbers are packed.
func (k *block) size() int {
	count := panels(k.sum.A.M)
	if k.sum.B != k.sum.A {
		count += panels(k.sum.B.M)
	}
	return count * k.height()
}

// multiply adds the block's part of stripRows rows starting at row and stripPanels panels.
func (k *block) multiply(row, first int, data, edge []float64) {
	s, height := k.sum, k.height()
	left, right := data, data
	if s.B != s.A {
		right = data[panels(s.A.M)*height:]
	}
	end, last := min(row+stripRows, s.A.M), min(first+stripPanels, panels(s.B.M))
	for p := first; p < last; p++ {
		b := right[p*height : (p+1)*height]
		column := p * panel
		width := min(panel, s.B.M-column)
		for i := row; i < end; i += blockRows {
			if s.Upper && column+panel <= i {
				break
			}
			a := left[i/panel*height+i%panel : (i/panel+1)*height]
			// Prefetch a third of a panel: of the next one on the left, then of the one on the right.
			next := right[min(p+1, last-1)*height:]
			if p == first && i/panel*panel+panel < end {
				next = left[(i/panel+1)*height:]
			}
			next = next[i%panel*k.rows:]
			if i+blockRows <= s.A.M && width == panel && !(s.Upper && column < i+blockRows) {
				update(k.rows, a, b, s.C[i*s.Stride+column:], s.Stride, s.Alpha, next)
				continue
			}
			for r := i; r < min(i+blockRows, s.A.M); r++ {
				copy(edge[(r-i)*panel:], s.C[r*s.Stride+column:][:width])
			}
			update(k.rows, a, b, edge, panel, s.Alpha, next)
			for r := i; r < min(i+blockRows, s.A.M); r++ {
				from := 0
				if s.Upper {
					from = min(max(r-column, 0), width)
				}
				copy(s.C[r*s.Stride+column:][from:width], edge[(r-i)*panel+from:])
			}
		}
	}
}

func panels(m int) int { return (m + panel - 1) / panel }
