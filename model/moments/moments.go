package moments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// Set is the statistics of rows of m features. Sums are of x - r, where the shift r is the mean of the first
// rows added, so that a mean far from zero costs no digits. The zero value is not usable; see New. A Set is not safe
// for concurrent use; Add itself uses as many cores as its context allows.
type Set struct {
	m        int
	perClass bool
	shift    []float64 // r, nil before the first row

	// Slot 0 is for unlabelled rows, slot c+1 for class c.
	weight []float64
	sum    [][]float64 // nil: no rows yet
	// The sum of all labelled rows, in their order: the sum of the classes' sums would depend on how classes are numbered.
	labelled []float64
	// Upper triangles, m x m row-major. Per class: one per slot. Otherwise slot 0 is for unlabelled rows and slot 1 for
	// all labelled ones.
	second []*mat.SymDense
}

// New returns an empty set of m >= 1 features. With perClass it keeps separate second moments for every class (m x m
// numbers each), which SLE one-versus-rest needs; otherwise one matrix for all labelled rows and one for the others.
func New(m int, perClass bool) *Set { return &Set{m: m, perClass: perClass} }

// Reset removes all rows. It keeps the memory of the second moments.
func (s *Set) Reset() {
	for _, v := range s.second {
		if v != nil {
			v.Zero()
		}
	}
	*s = Set{m: s.m, perClass: s.perClass, second: s.second}
}

// M is the number of features.
func (s *Set) M() int { return s.m }

// PerClass reports whether second moments are kept by class.
func (s *Set) PerClass() bool { return s.perClass }

// Classes is one more than the largest class index added.
func (s *Set) Classes() int { return max(len(s.weight)-1, 0) }

// Count is the number of rows of class c, or of the unlabelled rows for c = -1.
func (s *Set) Count(c int) float64 {
	if c < -1 || c+1 >= len(s.weight) {
		return 0
	}
	return s.weight[c+1]
}

// SetShift sets the shift r before the first row is added. The default is the mean of the first Add.
func (s *Set) SetShift(r []float64) error {
	if s.shift != nil {
		return fmt.Errorf("moments: the shift cannot change after rows were added")
	}
	if len(r) != s.m {
		return fmt.Errorf("moments: shift of %d numbers for %d features", len(r), s.m)
	}
	if j := slices.IndexFunc(r, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }); j >= 0 {
		return fmt.Errorf("moments: the shift of feature %d is %g, not finite", j, r[j])
	}
	s.shift = slices.Clone(r)
	return nil
}

// Add adds rows: x is n x m row-major, y the class of each row (-1: no label; nil: none has one). A class index past
// the last one grows the set, whose memory is proportional to the largest index. After an error the set is unchanged,
// unless the error is a panic: the set must not be used then. ctx only limits the goroutines: either all rows are added
// or none.
func (s *Set) Add(ctx context.Context, x []float64, y []int) error {
	rows := make([][]float64, len(x)/max(s.m, 1))
	if s.m < 1 || len(x) != len(rows)*s.m {
		return fmt.Errorf("moments: %d numbers are not rows of %d features", len(x), s.m)
	}
	for i := range rows {
		rows[i] = x[i*s.m : (i+1)*s.m]
	}
	return s.AddRows(ctx, rows, y)
}

// Merge adds the statistics of o, whose class indices must mean the same classes.
func (s *Set) Merge(o *Set) error {
	switch {
	case o == nil:
		return errors.New("moments: there is no set to merge")
	case o.m != s.m:
		return fmt.Errorf("moments: merging %d features into %d", o.m, s.m)
	case o.perClass != s.perClass:
		return fmt.Errorf("moments: merging sets of which only one has second moments by class")
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
			t[j] += v[j] + float64(o.weight[k]*delta[j])
		}
	}
	return nil
}

// MergeFilled is Merge as if features[i] of each row of o had the value values[i]. In o these features must be 0 in all
// rows: they stand for values that are missing. After an error the set is unchanged.
func (s *Set) MergeFilled(o *Set, features []int, values []float64) error {
	if o == nil || o.shift == nil || len(features) == 0 {
		return s.Merge(o)
	}
	if len(values) != len(features) {
		return fmt.Errorf("moments: %d values for %d features", len(values), len(features))
	}
	for i, j := range features {
		if j < 0 || j >= o.m || math.IsNaN(values[i]) || math.IsInf(values[i], 0) {
			return fmt.Errorf("moments: value %g for feature %d of %d", values[i], j, o.m)
		}
	}
	filled := *o
	filled.shift = slices.Clone(o.shift)
	for i, j := range features {
		filled.shift[j] = values[i]
	}
	return s.Merge(&filled)
}

// rankTwo adds f (a d' + d a') + w d d' to the upper triangle. No product here or below is fused with a sum: where a
// compiler may do that, an explicit conversion prevents it, so that sums are the same on all processors.
func rankTwo(s *mat.SymDense, a, d []float64, f, w float64) {
	m := len(a)
	raw := s.RawSymmetric()
	for i := range m {
		row := raw.Data[i*raw.Stride : i*raw.Stride+m]
		ai, di, wdi := f*a[i], f*d[i], w*d[i]
		for j := i; j < m; j++ {
			row[j] += float64(ai*d[j]) + float64(di*a[j]) + float64(wdi*d[j])
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
		s.labelled[j] += float64(f * x)
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

// AddRows is Add for separate rows, without copying them.
func (s *Set) AddRows(ctx context.Context, x [][]float64, y []int) error {
	for i, row := range x {
		if len(row) != s.m || s.m < 1 {
			return fmt.Errorf("moments: row %d has %d numbers, the set %d features", i, len(row), s.m)
		}
	}
	n := len(x)
	if y != nil && len(y) != n {
		return fmt.Errorf("moments: %d rows, %d classes", n, len(y))
	}
	slots := 1
	for i, c := range y {
		if c < -1 || c >= math.MaxInt32 {
			return fmt.Errorf("moments: row %d has class %d; give a small index, or -1 for no label", i, c)
		}
		slots = max(slots, c+2)
	}
	if n == 0 {
		return nil
	}
	shift := s.shift
	if shift == nil {
		shift = linalg.Mean(n, s.m, func(i int) []float64 { return x[i] })
	}
	slotOf := func(i int) int {
		if y == nil {
			return 0
		}
		return y[i] + 1
	}
	sums, err := s.summed(ctx, x, shift, slots, slotOf)
	if err != nil {
		return err
	}
	s.shift = shift
	s.grow(slots)
	sums.keep(s)
	// Group the rows by second-moment slot, in row order: then one matrix product for each slot is enough.
	count := make([]int, slots)
	for i := range n {
		count[s.secondSlot(slotOf(i))]++
	}
	rows, room := make([][]int, slots), make([]int, n)
	for k, size := range count {
		rows[k], room = room[:0:size], room[size:]
	}
	for i := range n {
		k := slotOf(i)
		rows[s.secondSlot(k)] = append(rows[s.secondSlot(k)], i)
		s.weight[k]++
	}
	var products []tile.Sum
	for k, index := range rows {
		if len(index) > 0 {
			raw := s.matrix(k).RawSymmetric()
			centred := &tile.Operand{K: len(index), M: s.m, At: func(k int) []float64 { return x[index[k]] }, About: shift}
			products = append(products, tile.Sum{C: raw.Data, Stride: raw.Stride, Alpha: 1, A: centred, B: centred, Upper: true})
		}
	}
	if err := tile.Add(ctx, products...); err != nil {
		return fmt.Errorf("moments: %w", err)
	}
	return nil
}

// finite checks that all numbers are finite.
func finite(x [][]float64) error {
	for i, row := range x {
		for j, v := range row {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("moments: row %d, feature %d is %g; impute or leave out such rows first", i, j, v)
			}
		}
	}
	return nil
}

// Relabel moves the statistics of class c to class to[c], for each of Classes; a negative to[c] drops a class without
// rows. No two classes with rows may be moved to the same one.
func (s *Set) Relabel(to []int) {
	slots := 1
	for _, c := range to {
		slots = max(slots, c+2)
	}
	weight, sum := make([]float64, slots), make([][]float64, slots)
	second := s.second
	if s.perClass {
		second = nil
	}
	for k, v := range s.weight {
		at := 0
		if k > 0 {
			if at = to[k-1] + 1; at == 0 {
				continue
			}
		}
		weight[at], sum[at] = v, s.sum[k]
		if s.perClass && k < len(s.second) {
			for len(second) <= at {
				second = append(second, nil)
			}
			second[at] = s.second[k]
		}
	}
	s.weight, s.sum, s.second = weight, sum, second
}
