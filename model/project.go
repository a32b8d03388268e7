package model

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
)

const (
	tile      = 64      // rows centred together: whole cache lines of a column, a scratch that stays in cache
	serial    = 1 << 20 // multiply-adds of a call that one core does alone
	rangeLow  = 1e-30   // scales and folded weights outside of these two leave the
	rangeHigh = 1e+30   // range in which float32 is as good as its 24 bits
)

// projection projects rows: y = W (x - mean) + offset with W = A^T/scale. It
// holds the tables of one mapping and a pool of scratch memory.
//
// A row's output depends on the row and the model alone. Each row takes the
// same float32 operations in the same order whatever its batch, place and
// memory layout: centring is element by element, and a dot product runs over
// scratch and tables whose length and alignment are fixed here, because the
// order in which gonum's Sdot sums depends on the alignment of its second
// argument, and Sgemm's on the size of the batch.
type projection struct {
	m, dim, width int // features, outputs, dot products of a row
	stride        int // m padded to a multiple of lane
	unit          bool
	exact         bool // the model does not fit float32: every row in float64

	mean     []float64
	w        []float32 // width x stride, aligned
	w64      []float64 // width x m
	offset   []float64 // width
	offset32 []float32

	finish    func(dst, y []float32) int
	extension mapping.Extension // in place of products and finish; nil: products
	scale     []float64         // of the row that extension sees
	scratch   sync.Pool         // *scratch
	jobs      sync.Pool         // *job
}

type scratch struct {
	z   []float32 // tile x stride, aligned
	y   []float32 // tile x width
	x64 []float64 // m
	y64 []float64 // dim
	own *mapping.Workspace
}

func newProjection(mean, scale []float64, unit, wide bool, mp mapping.Map) (*projection, error) {
	if r, ok := mp.(mapping.RowMap); ok {
		return newRowProjection(mean, scale, unit, r)
	}
	pm := mp.(mapping.ProductMap)
	width, w, offset := pm.Weights()
	m := len(mean)
	k := &projection{m: m, dim: mp.Dim(), width: width, stride: (m + linalg.Lane - 1) / linalg.Lane * linalg.Lane,
		unit: unit, exact: wide,
		mean: mean, w64: w, offset: offset, finish: pm.Finish}
	if offset == nil {
		k.offset = make([]float64, width)
	}
	k.offset32 = make([]float32, width)
	k.w = linalg.Aligned(width * k.stride)
	for j, mu := range mean {
		k.exact = k.exact || scale[j] < rangeLow || scale[j] > rangeHigh || math.Abs(mu) > rangeHigh
	}
	for c := range width {
		k.offset32[c] = float32(k.offset[c])
		largest := math.Abs(k.offset[c])
		for j := range m {
			f := k.w64[c*m+j] / scale[j]
			k.w64[c*m+j] = f
			k.w[c*k.stride+j] = float32(f)
			largest = max(largest, math.Abs(f))
		}
		k.exact = k.exact || largest > rangeHigh || (largest != 0 && largest < rangeLow)
	}
	k.scratch.New = func() any {
		return &scratch{z: linalg.Aligned(tile * k.stride), y: make([]float32, tile*width), x64: make([]float64, m)}
	}
	k.jobs.New = k.newJob
	return k, nil
}

// newRowProjection is the kernel of a mapping that sees the scaled row itself.
func newRowProjection(mean, scale []float64, unit bool, mp mapping.RowMap) (*projection, error) {
	k := &projection{m: len(mean), dim: mp.Dim(), unit: unit, mean: mean, scale: scale}
	var err error
	if k.extension, err = mp.Extension(k.m); err != nil {
		return nil, err
	}
	k.width = k.extension.Cost()
	k.scratch.New = func() any {
		return &scratch{x64: make([]float64, k.m), y64: make([]float64, k.dim), own: k.extension.Workspace()}
	}
	k.jobs.New = k.newJob
	return k, nil
}

func (k *projection) newJob() any {
	j := &job{kernel: k}
	j.pool = parallel.NewPool(j.work)
	return j
}

// Project writes the outputs of n rows to dst, n x Dim row-major, and
// allocates nothing. A value that is not finite is imputed by the model's
// mean. An output that float32 cannot hold is a *RowError with the lowest
// such row; what dst holds is then undefined.
func (m *Model) Project(dst []float32, rows Rows) error {
	return m.ProjectContext(context.Background(), dst, rows)
}

// ProjectContext is Project on no more goroutines than the limit of ctx allows. It stops with the error of ctx when
// that ends.
func (m *Model) ProjectContext(ctx context.Context, dst []float32, rows Rows) (err error) {
	defer parallel.Recover(&err, "project")
	if err = rows.check(m.M()); err != nil {
		return err
	}
	if want := rows.N * m.Dim(); len(dst) < want {
		return fmt.Errorf("project: dst holds %d values, %d rows x %d outputs need %d", len(dst), rows.N, m.Dim(), want)
	}
	return m.projection.project(ctx, dst, nil, rows)
}

// ProjectClasses writes the class index of each row to class beside its outputs, for
// mappings that classify.
func (m *Model) ProjectClasses(ctx context.Context, dst []float32, class []int, rows Rows) error {
	if err := rows.check(m.M()); err != nil {
		return err
	}
	return m.projection.project(ctx, dst, class, rows)
}

// ViewOutputs are the outputs of n rows in every view, n x (C d): what a map of views keeps of its window.
func ViewOutputs(ctx context.Context, mean, scale []float64, unit bool, v *mapping.Views,
	rows Rows) ([]float32, error) {
	k, err := newProjection(mean, scale, unit, false, v)
	if err != nil {
		return nil, err
	}
	k.dim = k.width
	k.finish = func(dst, y []float32) int { copy(dst, y); return -1 }
	y := make([]float32, rows.N*k.width)
	return y, k.project(ctx, y, nil, rows)
}

// ScaledTo writes (x - mean)/scale to dst, n x m row-major: the features in
// the model's scale, a missing value at the mean.
func (m *Model) ScaledTo(dst []float64, rows Rows) error {
	if err := rows.check(m.M()); err != nil {
		return err
	}
	if want := rows.N * m.M(); len(dst) < want {
		return fmt.Errorf("scale: dst holds %d values, %d rows x %d features need %d", len(dst), rows.N, m.M(), want)
	}
	for i := range rows.N {
		rows.Scaled(dst[i*m.M():(i+1)*m.M()], i, m.mean, m.scale, m.unit)
	}
	return nil
}

// project splits the rows over the cores where that pays.
func (k *projection) project(ctx context.Context, dst []float32, class []int, rows Rows) error {
	workers := 1
	if float64(rows.N)*float64(k.m)*float64(k.width) > serial {
		workers = min(parallel.Workers(ctx), (rows.N+tile-1)/tile)
	}
	j := k.jobs.Get().(*job)
	j.dst, j.class, j.rows = dst, class, rows
	err := j.pool.Run(ctx, workers, rows.N, max(tile, rows.N/(8*workers)/tile*tile))
	if err != nil {
		err = fmt.Errorf("project: %w", err)
	} else if j.err != nil {
		err = j.err
	}
	j.dst, j.class, j.rows, j.err = nil, nil, Rows{}, nil
	k.jobs.Put(j)
	return err
}

// job is one call of project, shared by its workers.
type job struct {
	kernel *projection
	dst    []float32
	class  []int
	rows   Rows
	pool   *parallel.Pool

	mu  sync.Mutex
	err *RowError
}

func (j *job) work(p *parallel.Pool) {
	s := j.kernel.scratch.Get().(*scratch)
	defer j.kernel.scratch.Put(s)
	for from, to, ok := p.Next(); ok; from, to, ok = p.Next() {
		if err := j.kernel.span(s, j.dst, j.class, j.rows, from, to); err != nil {
			j.mu.Lock()
			if j.err == nil || err.Row < j.err.Row {
				j.err = err
			}
			j.mu.Unlock()
			return // spans are taken in order, so this worker's first error is its lowest
		}
	}
}

// span projects the rows from to to, exclusive.
func (k *projection) span(s *scratch, dst []float32, class []int, rows Rows, from, to int) *RowError {
	if k.extension != nil {
		return k.place(s, dst, rows, from, to)
	}
	for ; from < to; from += tile {
		n := min(tile, to-from)
		if !k.exact {
			k.fill(s, rows, from, n)
			for c := range k.width {
				w := k.w[c*k.stride : (c+1)*k.stride]
				for r := range n {
					z := s.z[r*k.stride : (r+1)*k.stride]
					s.y[r*k.width+c] = linalg.BLAS.Sdot(k.stride, z, 1, w, 1) + k.offset32[c]
				}
			}
		}
		for r := range n {
			i := from + r
			y := s.y[r*k.width : (r+1)*k.width]
			if k.exact || !allFinite(y) {
				if err := k.row64(s, y, rows, i); err != nil {
					return err
				}
			}
			if winner := k.finish(dst[i*k.dim:(i+1)*k.dim], y); class != nil {
				class[i] = winner
			}
		}
	}
	return nil
}

// place is span for a mapping that sees the scaled row itself, in float64.
func (k *projection) place(s *scratch, dst []float32, rows Rows, from, to int) *RowError {
	for i := from; i < to; i++ {
		rows.Scaled(s.x64, i, k.mean, k.scale, k.unit)
		if err := k.extension.Place(s.y64, s.x64, s.own); err != nil {
			return &RowError{i, err.Error()}
		}
		for c, v := range s.y64 {
			y := float32(v)
			if !(math.Abs(float64(y)) <= math.MaxFloat32) {
				return tooLarge(i, c, v)
			}
			dst[i*k.dim+c] = y
		}
	}
	return nil
}

func tooLarge(row, output int, v float64) *RowError {
	return &RowError{row, fmt.Sprintf("output %d is %g, which float32 cannot hold; look for a feature far outside the range of the fit", output, v)}
}

// fill writes n centred rows to s.z. A value that is not finite stays so: it
// makes every output of its row NaN or infinite, which sends the row to row64.
func (k *projection) fill(s *scratch, rows Rows, from, n int) {
	if k.unit {
		for r := range n {
			rows.row(s.x64, from+r)
			centre(s.x64, k.mean, true)
			for j, v := range s.x64 {
				s.z[r*k.stride+j] = float32(v)
			}
		}
		return
	}
	col := 0
	for b := range rows.Blocks {
		bl := &rows.Blocks[b]
		switch {
		case bl.F64 != nil:
			k.fill64(s, bl, col, from, n)
		default:
			k.fill32(s, bl, col, from, n)
		}
		col += bl.Cols
	}
}

// fill32 centres in float64, as fill64 does: the same values give the same bits
// whether they come as float32 or as float64.
func (k *projection) fill32(s *scratch, b *Block, col, from, n int) {
	if b.ColStride == 1 {
		for r := range n {
			at := (from + r) * b.RowStride
			x := b.F32[at : at+b.Cols]
			z := s.z[r*k.stride+col:][:len(x)]
			mean := k.mean[col:][:len(x)]
			for j, v := range x {
				z[j] = float32(float64(v) - mean[j])
			}
		}
		return
	}
	for j := range b.Cols {
		mean := k.mean[col+j]
		x := b.F32[from*b.RowStride+j*b.ColStride:]
		z := s.z[col+j : (n-1)*k.stride+col+j+1]
		for r, at := 0, 0; r < len(z); r, at = r+k.stride, at+b.RowStride {
			z[r] = float32(float64(x[at]) - mean)
		}
	}
}

func (k *projection) fill64(s *scratch, b *Block, col, from, n int) {
	if b.ColStride == 1 {
		for r := range n {
			at := (from + r) * b.RowStride
			x := b.F64[at : at+b.Cols]
			z := s.z[r*k.stride+col:][:len(x)]
			mean := k.mean[col:][:len(x)]
			for j, v := range x {
				z[j] = float32(v - mean[j])
			}
		}
		return
	}
	for j := range b.Cols {
		mean := k.mean[col+j]
		at := from*b.RowStride + j*b.ColStride
		for r := range n {
			s.z[r*k.stride+col+j] = float32(b.F64[at] - mean)
			at += b.RowStride
		}
	}
}

// row64 projects one row in float64, missing values imputed: the way of rows
// and models that float32 cannot carry.
func (k *projection) row64(s *scratch, y []float32, rows Rows, i int) *RowError {
	rows.row(s.x64, i)
	centre(s.x64, k.mean, k.unit)
	for c := range k.width {
		v := linalg.BLAS.Ddot(k.m, s.x64, 1, k.w64[c*k.m:], 1) + k.offset[c]
		y[c] = float32(v)
		if !(math.Abs(float64(y[c])) <= math.MaxFloat32) {
			return tooLarge(i, c, v)
		}
	}
	return nil
}

func allFinite(y []float32) bool {
	for _, v := range y {
		if !(v <= math.MaxFloat32 && v >= -math.MaxFloat32) {
			return false
		}
	}
	return true
}
