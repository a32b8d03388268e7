// Package moments holds mergeable statistics of labelled rows: for every
// class its weight, sum and second moments, about one fixed shift. They are
// all that PCA, LDA, SRDA, SLE and pairacc need, so those methods refit
// exactly at a cost that does not depend on how many rows went by.
package moments

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
)

// Set is the statistics of weighted rows of m features. Sums are taken of
// x - r, where the shift r is the mean of the first rows added, so that a mean
// far from zero costs no digits. The zero value is not usable; see New. A Set
// is not safe for concurrent use; Add itself uses all cores, or as many as the limit of
// its context allows.
type Set struct {
	m        int
	perClass bool
	shift    []float64 // r, nil before the first row

	// Slot 0 is the unlabelled rows, slot c+1 class c.
	weight []float64
	sum    [][]float64 // nil: nothing yet
	// The sum of all labelled rows, in their order: that of the classes' sums would depend on their numbers.
	labelled []float64
	// Upper triangles, m x m row-major. Per class: one a slot. Otherwise slot 0
	// is the unlabelled rows and slot 1 all labelled ones.
	second []*mat.SymDense
}

// New returns an empty set of m features. With perClass it keeps the second
// moments of every class apart (m x m numbers each), which SLE one-versus-rest
// needs; otherwise one matrix for all labelled rows and one for the rest.
func New(m int, perClass bool) *Set { return &Set{m: m, perClass: perClass} }

// M is the number of features.
func (s *Set) M() int { return s.m }

// PerClass says whether second moments are kept by class.
func (s *Set) PerClass() bool { return s.perClass }

// Classes is one more than the largest class index seen.
func (s *Set) Classes() int { return max(len(s.weight)-1, 0) }

// Count is the weight of class c, of the unlabelled rows for c = -1.
func (s *Set) Count(c int) float64 {
	if c+1 >= len(s.weight) {
		return 0
	}
	return s.weight[c+1]
}

// SetShift fixes the shift r before the first row is added. Without it the mean
// of the first Add is taken.
func (s *Set) SetShift(r []float64) error {
	if s.shift != nil {
		return fmt.Errorf("moments: the shift is fixed once rows were added")
	}
	if len(r) != s.m {
		return fmt.Errorf("moments: shift of %d numbers for %d features", len(r), s.m)
	}
	s.shift = slices.Clone(r)
	return nil
}

// Add adds rows: x is n x m row-major, y the class of each row (-1: no label;
// nil: none has one), w the weight of each row (nil: 1). A class index past the
// last one grows the set. On an error the set is unchanged, but one of a panic
// inside: the set is not to be used then. Of ctx counts the limit of goroutines
// alone: no half of the rows is added.
func (s *Set) Add(ctx context.Context, x []float64, y []int, w []float64) error {
	return s.accumulate(ctx, adjacent(x, s.m), y, w, 1)
}

// AddRows is Add of rows that stand wherever they do, all of weight 1: no copy
// of them is made.
func (s *Set) AddRows(ctx context.Context, rows [][]float64, y []int) error {
	for i, x := range rows {
		if len(x) != s.m {
			return fmt.Errorf("moments: row %d has %d numbers, the set %d features", i, len(x), s.m)
		}
	}
	return s.accumulate(ctx, table{n: len(rows), m: s.m, apart: rows}, y, nil, 1)
}

// Sub takes out rows that were added with the same class and weight. Rounding
// errors of many evictions add up: prefer a ring of sets that are merged, or
// rebuild from the rows now and then.
func (s *Set) Sub(ctx context.Context, x []float64, y []int, w []float64) error {
	return s.accumulate(ctx, adjacent(x, s.m), y, w, -1)
}

// table is rows of m numbers: side by side, or apart.
type table struct {
	n, m  int
	x     []float64
	apart [][]float64
}

// adjacent is a table of numbers that may not be whole rows.
func adjacent(x []float64, m int) table { return table{n: len(x) / max(m, 1), m: m, x: x} }

func (t *table) row(i int) []float64 {
	if t.apart != nil {
		return t.apart[i]
	}
	return t.x[i*t.m : (i+1)*t.m]
}

// Merge adds the statistics of o, whose class indices mean the same classes.
func (s *Set) Merge(o *Set) error {
	switch {
	case o.m != s.m:
		return fmt.Errorf("moments: merging %d features into %d", o.m, s.m)
	case o.perClass != s.perClass:
		return fmt.Errorf("moments: merging sets of which only one keeps second moments by class")
	case o.shift == nil:
		return nil
	}
	if s.shift == nil {
		s.shift = slices.Clone(o.shift)
	}
	s.grow(len(o.weight))
	// x - r = (x - r_o) + delta.
	delta := make([]float64, s.m)
	for j := range delta {
		delta[j] = o.shift[j] - s.shift[j]
	}
	for k, v := range o.second {
		if v == nil {
			continue
		}
		d := s.matrix(k)
		d.AddSym(d, v)
		weight, sum := o.slotTotal(k)
		rankTwo(d, sum, delta, 1, weight)
	}
	if !s.perClass && o.labelled != nil {
		weight, sum := o.slotTotal(1)
		s.addLabelled(1, sum)
		s.addLabelled(weight, delta)
	}
	for k, v := range o.sum {
		s.weight[k] += o.weight[k]
		if v == nil {
			continue
		}
		t := s.sumOf(k)
		for j := range v {
			t[j] += v[j] + o.weight[k]*delta[j]
		}
	}
	return nil
}

// rankTwo adds f (a d' + d a') + w d d' to the upper triangle.
func rankTwo(s *mat.SymDense, a, d []float64, f, w float64) {
	m := len(a)
	raw := s.RawSymmetric()
	for i := range m {
		row := raw.Data[i*raw.Stride : i*raw.Stride+m]
		ai, di := f*a[i], f*d[i]
		for j := i; j < m; j++ {
			row[j] += ai*d[j] + di*a[j] + w*d[i]*d[j]
		}
	}
}

// slotTotal is the weight and sum that belong to second-moment slot k.
func (s *Set) slotTotal(k int) (float64, []float64) {
	if s.perClass || k == 0 {
		return s.weight[k], s.sumOf(k)
	}
	weight := 0.0
	for _, w := range s.weight[1:] {
		weight += w
	}
	return weight, s.labelled
}

// addLabelled adds f v to the sum of all labelled rows.
func (s *Set) addLabelled(f float64, v []float64) {
	if s.labelled == nil {
		s.labelled = make([]float64, s.m)
	}
	for j, x := range v {
		s.labelled[j] += f * x
	}
}

func (s *Set) grow(slots int) {
	for len(s.weight) < slots {
		s.weight = append(s.weight, 0)
		s.sum = append(s.sum, nil)
	}
}

func (s *Set) sumOf(k int) []float64 {
	if s.sum[k] == nil {
		s.sum[k] = make([]float64, s.m)
	}
	return s.sum[k]
}

func (s *Set) matrix(k int) *mat.SymDense {
	for len(s.second) <= k {
		s.second = append(s.second, nil)
	}
	if s.second[k] == nil {
		s.second[k] = mat.NewSymDense(s.m, nil)
	}
	return s.second[k]
}

// secondSlot is the second-moment slot of a row's slot.
func (s *Set) secondSlot(slot int) int {
	if s.perClass {
		return slot
	}
	return min(slot, 1)
}

func (s *Set) accumulate(ctx context.Context, x table, y []int, w []float64, sign float64) error {
	if s.m < 1 || x.apart == nil && len(x.x) != x.n*s.m {
		return fmt.Errorf("moments: %d numbers are not rows of %d features", len(x.x), s.m)
	}
	n := x.n
	if (y != nil && len(y) != n) || (w != nil && len(w) != n) {
		return fmt.Errorf("moments: %d rows, %d classes, %d weights", n, len(y), len(w))
	}
	slots := 1
	for i, c := range y {
		if c < -1 {
			return fmt.Errorf("moments: row %d has class %d; -1 means no label", i, c)
		}
		slots = max(slots, c+2)
	}
	for i, v := range w {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("moments: row %d has weight %g; it must be finite and >= 0", i, v)
		}
	}
	for i := range n {
		for j, v := range x.row(i) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("moments: row %d, feature %d is %g; impute or leave out such rows first", i, j, v)
			}
		}
	}
	if n == 0 {
		return nil
	}
	if s.shift == nil {
		s.shift = x.means()
	}
	s.grow(slots)
	if s.labelled == nil {
		s.labelled = make([]float64, s.m)
	}
	slotOf := func(i int) int {
		if y == nil {
			return 0
		}
		return y[i] + 1
	}
	// Rows of one second-moment slot, in row order, so that one product serves
	// them all.
	rows := make([][]int, slots)
	for i := range n {
		k := slotOf(i)
		weight := sign
		if w != nil {
			weight *= w[i]
		}
		s.weight[k] += weight
		sum := s.sumOf(k)
		for j, v := range x.row(i) {
			d := weight * (v - s.shift[j])
			sum[j] += d
			if k > 0 {
				s.labelled[j] += d
			}
		}
		rows[s.secondSlot(k)] = append(rows[s.secondSlot(k)], i)
	}
	for k, index := range rows {
		if len(index) > 0 {
			if err := addProducts(ctx, s.matrix(k), &x, w, s.shift, index, sign); err != nil {
				return fmt.Errorf("moments: %w", err)
			}
		}
	}
	return nil
}

// means are those of the columns.
func (t *table) means() []float64 {
	mean := make([]float64, t.m)
	n := float64(t.n)
	for i := range t.n {
		for j, v := range t.row(i) {
			mean[j] += v / n
		}
	}
	return mean
}

const (
	blockRows = 256 // rows transposed at a time: two tiles of them stay in the second-level cache
	tile      = 64  // gonum's own block; one tile is one serial product
	fewRows   = 16  // below, one rank-one update a row is faster
)

// blocks are transposed rows of sums that are over, for those that begin.
var blocks sync.Pool

// addProducts adds sign * sum w (x - r)(x - r)' over the rows of index to the
// upper triangle of s. A tile of s is computed by one goroutine over all rows
// in order, so the bits do not depend on the number of cores.
func addProducts(ctx context.Context, s *mat.SymDense, x *table, w, shift []float64, index []int, sign float64) error {
	m := len(shift)
	raw := s.RawSymmetric()
	if len(index) < fewRows {
		centred := make([]float64, m)
		for _, r := range index {
			f := sign
			if w != nil {
				f *= w[r]
			}
			for j, v := range x.row(r) {
				centred[j] = v - shift[j]
			}
			blas64.Syr(f, blas64.Vector{N: m, Inc: 1, Data: centred}, raw)
		}
		return nil
	}
	tiles := (m + tile - 1) / tile
	workers := parallel.Workers(ctx)
	if len(index)*m*m < 1<<18 {
		workers = 1 // not worth a goroutine
	}
	// The block is kept transposed, m x rows: products of rows with rows are
	// gonum's fastest kernel.
	kept, _ := blocks.Get().(*[]float64)
	if need := m * min(blockRows, len(index)); kept == nil || len(*kept) < need {
		kept = new([]float64)
		*kept = make([]float64, need)
	}
	defer blocks.Put(kept)
	block := *kept
	for from := 0; from < len(index); from += blockRows {
		part := index[from:min(from+blockRows, len(index))]
		b := len(part)
		for i, r := range part {
			f := 1.0
			if w != nil {
				f = math.Sqrt(w[r])
			}
			for j, v := range x.row(r) {
				block[j*b+i] = f * (v - shift[j])
			}
		}
		err := parallel.EachOn(context.WithoutCancel(ctx), workers, tiles*(tiles+1)/2, func(t int) {
			i, j := tileAt(t)
			i0, j0 := i*tile, j*tile
			ni, nj := min(tile, m-i0), min(tile, m-j0)
			c := blas64.General{Rows: ni, Cols: nj, Stride: raw.Stride, Data: raw.Data[i0*raw.Stride+j0:]}
			blas64.Gemm(blas.NoTrans, blas.Trans, sign,
				blas64.General{Rows: ni, Cols: b, Stride: b, Data: block[i0*b:]},
				blas64.General{Rows: nj, Cols: b, Stride: b, Data: block[j0*b:]}, 1, c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tileAt is the t-th tile (i <= j) of an upper triangle, column by column.
func tileAt(t int) (i, j int) {
	for t > j {
		t -= j + 1
		j++
	}
	return t, j
}
