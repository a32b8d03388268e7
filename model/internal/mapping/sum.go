package mapping

import (
	"fmt"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/tile"
)

// Sum is y(z) = offset + z·A + r(z)·B + a kernel map of z, where r are normal scores: a blend of methods that are
// linear in the features, in their normal scores and in landmarks. Any part but the offset may be missing.
type Sum struct {
	D      int
	Offset []float64 // d
	Linear []float64 // A, m x d
	Ranks  *Ranks
	Ranked []float64 // B, m x d
	Kernel *KernelMap
}

func (s *Sum) Kind() string { return "sum" }

func (s *Sum) Dim() int { return s.D }

func (s *Sum) Check(m, _ int) error {
	if s.Linear == nil && s.Ranks == nil && s.Kernel == nil {
		return fmt.Errorf("a sum of nothing; it needs a part")
	}
	for name, a := range map[string][]float64{"components": s.Linear, "ranked": s.Ranked} {
		if a != nil && (s.D > len(a) || len(a) != m*s.D) { // the first keeps m*d from overflowing
			return fmt.Errorf("%d numbers in %s, %d x %d are needed", len(a), name, m, s.D)
		}
	}
	if s.Ranks != nil {
		if err := s.Ranks.check(m); err != nil {
			return err
		}
	}
	if s.Kernel == nil {
		return nil
	}
	if s.Kernel.D != s.D {
		return fmt.Errorf("a kernel of %d outputs in a sum of %d", s.Kernel.D, s.D)
	}
	return s.Kernel.Check(m, 0)
}

func (s *Sum) Arrays() []Array {
	arrays := []Array{{"offset", []int{s.D}, s.Offset}}
	if s.Linear != nil {
		arrays = append(arrays, Array{"components", []int{len(s.Linear) / s.D, s.D}, s.Linear})
	}
	if r := s.Ranks; r != nil {
		arrays = append(arrays, Array{"first", []int{len(r.First)}, r.First}, Array{"value", []int{len(r.Value)}, r.Value},
			Array{"score", []int{len(r.Score)}, r.Score}, Array{"ranked", []int{len(s.Ranked) / s.D, s.D}, s.Ranked})
	}
	if s.Kernel != nil {
		arrays = append(arrays, s.Kernel.Arrays()...)
	}
	return arrays
}

func rebuildSum(arrays []Array) Map {
	if !named(arrays, []string{"offset"}, []int{1}) {
		panic(fail.With(fmt.Errorf("a sum starts with the array offset (d)")))
	}
	s := &Sum{D: arrays[0].Shape[0], Offset: arrays[0].Data}
	arrays = arrays[1:]
	if named(arrays, []string{"components"}, []int{2}) && arrays[0].Shape[1] == s.D {
		s.Linear, arrays = arrays[0].Data, arrays[1:]
	}
	if named(arrays, []string{"first", "value", "score", "ranked"}, []int{1, 1, 1, 2}) && arrays[3].Shape[1] == s.D {
		s.Ranks = &Ranks{First: arrays[0].Data, Value: arrays[1].Data, Score: arrays[2].Data}
		s.Ranked, arrays = arrays[3].Data, arrays[4:]
	}
	if len(arrays) > 0 {
		size := min(3, len(arrays)) // rows, coefficients and a kernel, which may have an origin
		if size == 3 && len(arrays) > 3 && arrays[3].Name == "origin" {
			size = 4
		}
		k, err := kernelOfSum(arrays[:size])
		if err != nil {
			panic(fail.With(fmt.Errorf("a sum has the array offset (d), perhaps components (m x d), "+
				"perhaps first, value, score and ranked (m x d), and perhaps a kernel map: %w", err)))
		}
		if len(arrays) > size {
			panic(fail.With(fmt.Errorf("a sum has one kernel map at most, and the array %s comes after it", arrays[size].Name)))
		}
		s.Kernel = k.(*KernelMap)
	}
	return s
}

func kernelOfSum(arrays []Array) (k Map, err error) {
	defer fail.Catch(&err)
	return rebuildKernelMap(arrays), nil
}

func (s *Sum) Extension(m int) (Extension, error) {
	e := &sumExtension{Sum: s, m: m}
	if s.Linear != nil {
		e.linear = tile.NewTable(s.Linear, s.D, m, 1, s.D)
	}
	if s.Ranks != nil {
		e.ranks, e.ranked = newRankTable(s.Ranks), tile.NewTable(s.Ranked, s.D, m, 1, s.D)
	}
	if s.Kernel == nil {
		return e, nil
	}
	var err error
	e.kernel, err = s.Kernel.Extension(m)
	return e, err
}

type sumExtension struct {
	*Sum
	m              int
	linear, ranked *tile.Table // of Linear and Ranked; nil: none
	ranks          *rankTable
	kernel         Extension // of Kernel; nil: none
}

func (e *sumExtension) Cost() int {
	cost := 1
	if e.Ranks != nil {
		cost++
	}
	if e.kernel != nil {
		cost += e.kernel.Cost()
	}
	return cost
}

// AtOnce is more rows than Together if there are ranks: the knots of a feature are then read from a distant memory once
// for more rows. The rows themselves take a megabyte at most.
func (e *sumExtension) AtOnce() int {
	if e.ranks == nil {
		return Together
	}
	return Together * max(1, min(10, 1<<20/(8*Together*e.m)))
}

// Workspace holds rows side by side, the outputs of a product or of a part, and the workspace of a kernel map.
func (e *sumExtension) Workspace() *Workspace {
	w := &Workspace{part: make([]float64, Together*e.D)}
	for _, t := range []*tile.Table{e.linear, e.ranked} {
		if t != nil {
			w.Row = make([]float64, max(t.Rows()*Together, t.Width()))
			w.many = make([]float64, e.AtOnce()*e.m)
		}
	}
	if e.kernel != nil {
		w.kernel = e.kernel.Workspace()
	}
	return w
}

func (e *sumExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	for r := range n {
		copy(dst[r*e.D:(r+1)*e.D], e.Offset)
	}
	if n > maxAlone {
		e.sideBySide(dst, z, n, w)
	} else {
		for r := range n {
			e.alone(dst[r*e.D:(r+1)*e.D], z[r*e.m:(r+1)*e.m], w)
		}
	}
	for from := 0; from < n && e.kernel != nil; from += Together {
		count := min(Together, n-from)
		if done, err := e.kernel.Project(w.part, z[from*e.m:(from+count)*e.m], count, w.kernel); err != nil {
			return from + done, err
		}
		for c, v := range w.part[:count*e.D] {
			dst[from*e.D+c] += v
		}
	}
	return n, nil
}

// sideBySide adds the outputs of n rows but those of the kernel map to dst.
func (e *sumExtension) sideBySide(dst, z []float64, n int, w *Workspace) {
	if w.many == nil {
		return
	}
	size := Together * e.m
	eachTile := func(do func(x []float64, from, count int)) {
		for from := 0; from < n; from += Together {
			do(w.many[from*e.m:][:size], from, min(Together, n-from))
		}
	}
	add := func(t *tile.Table) {
		eachTile(func(x []float64, from, count int) {
			t.Times(w.Row, x)
			to := dst[from*e.D:][:count*e.D]
			for i := range to {
				to[i] += w.Row[i%e.D*Together+i/e.D]
			}
		})
	}
	eachTile(func(x []float64, from, count int) { spread(x, z[from*e.m:(from+count)*e.m], e.m, count) })
	if e.linear != nil {
		add(e.linear)
	}
	if e.ranks != nil {
		for j := range e.m {
			w.fetched = e.ranks.fetch(j)
			eachTile(func(x []float64, _, count int) { e.ranks.score(x[j*Together:][:count], j) })
		}
		add(e.ranked)
	}
}

// alone is sideBySide of one row.
func (e *sumExtension) alone(dst, z []float64, w *Workspace) {
	add := func(t *tile.Table, row []float64) {
		t.Row(w.Row, row)
		for c := range dst {
			dst[c] += w.Row[c]
		}
	}
	if e.linear != nil {
		add(e.linear, z)
	}
	if e.ranks != nil {
		row := w.many[:e.m]
		copy(row, z)
		for j := range row {
			e.ranks.score(row[j:j+1], j)
		}
		add(e.ranked, row)
	}
}
