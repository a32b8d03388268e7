package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/product"
)

const (
	tileRows   = 64      // rows that are copied together, so that scratch stays in cache
	maxWidened = 1 << 20 // bytes of columns that are widened together, or eight rows: limits of messages exclude them
	most       = 1024    // rows in one unit of work
	rangeLow   = 1e-30   // float32 loses precision for scales and folded weights
	rangeHigh  = 1e+30   // outside of these two
)

// projection projects rows: y = W (x - mean) + offset with W = A^T/scale. It has the tables of one map and a pool of
// scratch memory.
//
// A row's output depends on the row and the model alone, not on its batch, its position or its memory layout: package
// product always sums in one order.
type projection struct {
	m, dim, width int // features, outputs, products of a row
	unit          bool
	exact         bool // the model exceeds float32: every row in float64
	centred       bool // rows are copied, and centred in float64, before the products

	mean   []float64
	w64    []float64 // width x m
	offset []float64 // width

	products   *product.Weights // nil: fixedOrder
	fixedOrder *fixedOrder
	finish     func(dst, y []float32) int // of maps whose outputs are not the products themselves

	extension mapping.Extension // instead of products and finish; nil: products
	scale     []float64         // of the row for extension
	scratch   sync.Pool         // *scratch of extension; that of products is shared
	jobs      sync.Pool         // *job
}

type scratch struct {
	x64  []float64  // m
	y    []float32  // tileRows x width, for finish
	z    []float32  // rows that are copied
	at   []*float32 // columns of them
	wide []float64  // the same in float64
	sums *product.Sums

	centred []float32 // rows less the mean, aligned

	y64 []float64 // dim, of a map that sees the row itself
	own *mapping.Workspace
}

func newProjection(mean, scale []float64, unit, wide bool, mp mapping.Map) (*projection, error) {
	if r, ok := mp.(mapping.RowMap); ok {
		return newRowProjection(mean, scale, unit, r)
	}
	pm := mp.(mapping.ProductMap)
	k := newProducts(mean, scale, unit, wide, pm)
	if _, linear := mp.(*mapping.Linear); linear {
		k.fold(scale)
	} else {
		k.fixOrder()
		k.finish = pm.Finish
	}
	return k, nil
}

// newProducts makes everything but the tables of the products.
func newProducts(mean, scale []float64, unit, wide bool, mp mapping.ProductMap) *projection {
	width, w, offset := mp.Weights()
	m := len(mean)
	k := &projection{m: m, dim: mp.Dim(), width: width, unit: unit, exact: wide, mean: mean, w64: w, offset: offset}
	if offset == nil {
		k.offset = make([]float64, width)
	}
	for j, mu := range mean {
		k.exact = k.exact || scale[j] < rangeLow || scale[j] > rangeHigh || math.Abs(mu) > rangeHigh
	}
	for c := range width {
		largest := math.Abs(k.offset[c])
		for j := range m {
			w[c*m+j] /= scale[j]
			largest = max(largest, math.Abs(w[c*m+j]))
		}
		k.exact = k.exact || largest > rangeHigh || (largest != 0 && largest < rangeLow)
	}
	k.jobs.New = k.newJob
	return k
}

// scratches are shared by all models: a stage makes several models per second, and memory that each kept would stay
// until the second garbage collection.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// borrow gets scratch memory of the right sizes. It holds what another projection left in it.
func (k *projection) borrow() *scratch {
	if k.extension != nil {
		return k.scratch.Get().(*scratch)
	}
	s := scratches.Get().(*scratch)
	s.x64 = slices.Grow(s.x64[:0], k.m)[:k.m]
	if k.finish != nil {
		s.y = slices.Grow(s.y[:0], tileRows*k.width)[:tileRows*k.width]
	}
	return s
}

func (k *projection) giveBack(s *scratch) {
	if k.extension != nil {
		k.scratch.Put(s)
	} else {
		scratches.Put(s)
	}
}

// columnSums is the memory that columns are summed in.
func (s *scratch) columnSums() *product.Sums {
	if s.sums == nil {
		s.sums = product.NewSums()
	}
	return s.sums
}

// fold makes the tables of a map whose outputs are the products. The mean is subtracted as float32, and the remainder,
// times the weights, is added to the offset: x - mean is then as exact as a float64 subtraction, unless features are
// closer to each other than float32 numbers at their mean. Such rows are centred first.
func (k *projection) fold(scale []float64) {
	w := make([]float32, len(k.w64))
	largest := make([]float64, k.m) // weight of a feature
	for i, v := range k.w64 {
		w[i] = float32(v)
		largest[i%k.m] = max(largest[i%k.m], math.Abs(v))
	}
	mean, left := make([]float32, k.m), make([]float64, k.m)
	k.centred = k.unit
	for j, mu := range k.mean {
		mean[j] = float32(mu)
		left[j] = mu - float64(mean[j])
		k.centred = k.centred || math.Abs(left[j])*max(1/scale[j], largest[j]) > 0.25
	}
	if k.centred {
		clear(mean)
		clear(left)
	}
	offset := make([]float32, k.width)
	for c := range offset {
		offset[c] = float32(k.offset[c] - linalg.Dot(k.w64[c*k.m:(c+1)*k.m], left))
	}
	k.products = product.New(w, mean, offset)
}

// newRowProjection is the projection of a map that needs the scaled row itself.
func newRowProjection(mean, scale []float64, unit bool, mp mapping.RowMap) (*projection, error) {
	k := &projection{m: len(mean), dim: mp.Dim(), unit: unit, mean: mean, scale: scale}
	var err error
	if k.extension, err = mp.Extension(k.m); err != nil {
		return nil, err
	}
	k.width = k.extension.Cost()
	k.scratch.New = func() any {
		n := k.extension.AtOnce()
		return &scratch{wide: make([]float64, n*k.m), y64: make([]float64, n*k.dim), own: k.extension.Workspace()}
	}
	k.jobs.New = k.newJob
	return k, nil
}

func (k *projection) newJob() any {
	j := &job{kernel: k}
	j.pool = parallel.NewPool(j.work)
	return j
}

// Project writes the outputs of n rows to dst, n x Dim row-major, without allocating. A value that is not finite is
// imputed by the model's mean. If float32 cannot represent an output, the error is a *RowError with the lowest such
// row, and the contents of dst are undefined.
func (m *Model) Project(dst []float32, rows Rows) error {
	return m.ProjectContext(context.Background(), dst, rows)
}

// ProjectContext is Project on at most as many goroutines as ctx allows, see Limit. It ends with the error of ctx.
func (m *Model) ProjectContext(ctx context.Context, dst []float32, rows Rows) (err error) {
	defer parallel.Recover(&err, "project")
	if err := m.fits(dst, rows); err != nil {
		return err
	}
	return m.projection.project(ctx, dst, nil, rows)
}

// fits checks the rows against the model, and dst against both.
func (m *Model) fits(dst []float32, rows Rows) error {
	if err := rows.check(m); err != nil {
		return err
	}
	if want := rows.N * m.Dim(); len(dst) < want {
		return fmt.Errorf("project: dst holds %d values, %d rows x %d outputs need %d", len(dst), rows.N, m.Dim(), want)
	}
	return nil
}

// ProjectSuspects is Project, and returns the rows, ascending, that may hold a value which is not finite or is beyond
// float32. No other row holds one, so a caller that looks for such values can skip the others. Maps other than linear,
// and models that need float64, return every row.
func (m *Model) ProjectSuspects(dst []float32, rows Rows) (suspects []int, err error) {
	defer parallel.Recover(&err, "project")
	if err := m.fits(dst, rows); err != nil {
		return nil, err
	}
	k := m.projection
	j := k.jobs.Get().(*job)
	defer j.end()
	if err := j.run(context.Background(), dst, nil, rows); err != nil {
		return nil, err
	}
	if k.exact || k.extension != nil || k.fixedOrder != nil {
		return linalg.Range(rows.N), nil
	}
	slices.Sort(j.suspects)
	return slices.Clone(j.suspects), nil
}

// ProjectClasses is Project for maps that classify: it also writes the class index of each row to class, or
// -1 if the map does not classify.
func (m *Model) ProjectClasses(ctx context.Context, dst []float32, class []int, rows Rows) error {
	if err := m.fits(dst, rows); err != nil {
		return err
	}
	return m.projection.project(ctx, dst, class, rows)
}

// ViewOutputs are the outputs of n rows in every view, n x (C d), for a map with one view for each of C classes. Such
// a map stores those of the rows in its window.
func (c Content) ViewOutputs(ctx context.Context, rows Rows) ([]float32, error) {
	v, ok := c.Map.(*mapping.Views)
	if !ok {
		return nil, fmt.Errorf("a map without views; give content whose map is views")
	}
	k := newProducts(c.Mean, c.Scale, c.Unit, false, v)
	k.fixOrder()
	k.dim = k.width
	y := make([]float32, rows.N*k.width)
	return y, k.project(ctx, y, nil, rows)
}

// ScaledTo writes (x - mean)/scale to dst, n x m row-major: the features in the model's scale, with missing values at
// the mean.
func (m *Model) ScaledTo(dst []float64, rows Rows) error {
	if err := rows.check(m); err != nil {
		return err
	}
	if want := rows.N * m.M(); len(dst) < want {
		return fmt.Errorf("scale: dst holds %d values, %d rows x %d features need %d", len(dst), rows.N, m.M(), want)
	}
	for i := range rows.N {
		rows.Scaled(dst[i*m.M():(i+1)*m.M()], i, m.fitted.Mean, m.fitted.Scale, m.fitted.Unit)
	}
	return nil
}

// project splits the rows over the cores if that is faster.
func (k *projection) project(ctx context.Context, dst []float32, class []int, rows Rows) error {
	j := k.jobs.Get().(*job)
	defer j.end()
	return j.run(ctx, dst, class, rows)
}

// job is one call of project, shared by its workers.
type job struct {
	kernel *projection
	dst    []float32
	class  []int
	rows   Rows
	layout layout
	pool   *parallel.Pool

	mu       sync.Mutex
	suspects []int // rows with a value that may not be finite, or be beyond float32
	err      *RowError
}

func (j *job) run(ctx context.Context, dst []float32, class []int, rows Rows) error {
	k := j.kernel
	workers := parallel.WorkersFor(ctx, float64(rows.N)*float64(k.m)*float64(k.width))
	workers = max(1, min(workers, (rows.N+tileRows-1)/tileRows))
	j.dst, j.class, j.rows = dst, class, rows
	if k.products != nil && !k.centred && !k.exact {
		j.layout.find(rows)
	}
	share, atOnce := (rows.N+workers-1)/workers, most
	if k.steps(j) {
		atOnce = most / 4 // they take longer, and learning yields between units
	}
	unit := max(tileRows, min(atOnce, (share+tileRows-1)/tileRows*tileRows))
	if err := j.pool.Run(ctx, workers, rows.N, unit); err != nil {
		return fmt.Errorf("project: %w", err)
	}
	if j.err != nil {
		return j.err
	}
	return nil
}

func (j *job) end() {
	j.dst, j.class, j.rows, j.suspects, j.err = nil, nil, Rows{}, j.suspects[:0], nil
	j.layout.forget()
	j.kernel.jobs.Put(j)
}

func (j *job) work(p *parallel.Pool) {
	s := j.kernel.borrow()
	defer j.kernel.giveBack(s)
	for from, to, ok := p.Next(); ok; from, to, ok = p.Next() {
		if err := j.kernel.span(s, j, from, to); err != nil {
			j.mu.Lock()
			if j.err == nil || err.Row < j.err.Row {
				j.err = err
			}
			j.mu.Unlock()
			return // spans are handed out in order, so this worker's first error is its lowest
		}
	}
}

func (j *job) suspect(row int) {
	j.mu.Lock()
	j.suspects = append(j.suspects, row)
	j.mu.Unlock()
}

// span projects the rows [from, to).
func (k *projection) span(s *scratch, j *job, from, to int) *RowError {
	if k.extension != nil {
		return k.place(s, j.dst, j.rows, from, to)
	}
	step := to - from
	switch {
	case j.layout.widened:
		step = max(8, maxWidened/(4*k.m)/8*8)
	case k.steps(j):
		step = tileRows
	}
	for ; from < to; from += step {
		n := min(step, to-from)
		y := s.y
		if k.finish == nil {
			y = j.dst[from*k.dim:]
		}
		if k.exact || !k.multiply(s, y, j, from, n) {
			if err := k.reproject(s, y, j, from, n); err != nil {
				return err
			}
		}
		for r := range n {
			winner := -1
			if k.finish != nil {
				winner = k.finish(j.dst[(from+r)*k.dim:(from+r+1)*k.dim], y[r*k.width:(r+1)*k.width])
			}
			if j.class != nil {
				j.class[from+r] = winner
			}
		}
	}
	return nil
}

// steps reports whether rows are copied, a tile at a time, instead of being read in place.
func (k *projection) steps(j *job) bool {
	return k.finish != nil || k.centred || !j.layout.inPlace()
}

// multiply writes the products of n rows, in float32, to y. It reports whether all of them are finite. Those of a row
// with a value that is not finite are not, except rows divided by their norm, which are imputed at once.
func (k *projection) multiply(s *scratch, y []float32, j *job, from, n int) (finite bool) {
	l := &j.layout
	switch {
	case k.fixedOrder != nil:
		return k.fixedOrder.multiply(y, k.centre(s, j, from, n, k.fixedOrder.stride), n)
	case k.centred:
		return k.products.List32(y, k.centre(s, j, from, n, k.m), n, k.m)
	case l.list32 != nil:
		return k.products.List32(y, l.list32[from*l.stride:], n, l.stride)
	case l.list64 != nil:
		return k.products.List64(y, l.list64[from*l.stride:], n, l.stride)
	case len(l.columns32) > 0:
		return k.products.Columns32(y, l.columns32, from, n, s.columnSums())
	case len(l.columns64) > 0:
		return k.products.Columns64(y, l.columns64, from, n, s.columnSums())
	case l.widened:
		s.z, s.at = widenColumns(s.z, s.at, j.rows, k.m, from, n)
		defer clear(s.at) // the scratch must not keep the rows
		return k.products.Columns32(y, s.at, 0, n, s.columnSums())
	case l.wide:
		s.wide = gather(s.wide, j.rows, k.m, from, n)
		return k.products.List64(y, s.wide, n, k.m)
	default:
		s.z = gather(s.z, j.rows, k.m, from, n)
		return k.products.List32(y, s.z, n, k.m)
	}
}

// centre copies n rows less the mean, subtracted in float64, to scratch, stride numbers apart. A value that is not
// finite stays so, except in rows that are divided by their norm: there it is imputed.
func (k *projection) centre(s *scratch, j *job, from, n, stride int) []float32 {
	if len(s.centred) < tileRows*stride {
		s.centred = linalg.Aligned(tileRows * stride)
	}
	z := s.centred
	for r := range n {
		j.rows.row(s.x64, from+r)
		if k.unit {
			if !isFloat32(s.x64) {
				j.suspect(from + r)
			}
			centre(s.x64, k.mean, true)
		} else {
			for i, mu := range k.mean {
				s.x64[i] -= mu
			}
		}
		for i, v := range s.x64 {
			z[r*stride+i] = float32(v)
		}
		clear(z[r*stride+len(s.x64) : (r+1)*stride])
	}
	return z
}

// reproject projects in float64 those of n rows whose outputs are not finite in float32, or all rows of a model that
// needs float64.
func (k *projection) reproject(s *scratch, y []float32, j *job, from, n int) *RowError {
	for r := range n {
		row := y[r*k.width : (r+1)*k.width]
		if !k.exact && allFinite(row) {
			continue
		}
		j.suspect(from + r)
		if err := k.row64(s, row, j.rows, from+r); err != nil {
			return err
		}
	}
	return nil
}

// place is span for a map that needs the scaled rows themselves, in float64.
func (k *projection) place(s *scratch, dst []float32, rows Rows, from, to int) *RowError {
	for atOnce := k.extension.AtOnce(); from < to; from += atOnce {
		n := min(atOnce, to-from)
		for i := range n {
			rows.Scaled(s.wide[i*k.m:(i+1)*k.m], from+i, k.mean, k.scale, k.unit)
		}
		done, err := k.extension.Project(s.y64, s.wide, n, s.own)
		for i := range done {
			if err := k.put(dst, s.y64[i*k.dim:(i+1)*k.dim], from+i); err != nil {
				return err
			}
		}
		if err != nil {
			return &RowError{from + done, err.Error()}
		}
	}
	return nil
}

// put writes the outputs of row i to dst.
func (k *projection) put(dst []float32, outputs []float64, i int) *RowError {
	for c, v := range outputs {
		y := float32(v)
		if !(math.Abs(float64(y)) <= math.MaxFloat32) {
			return tooLarge(i, c, v)
		}
		dst[i*k.dim+c] = y
	}
	return nil
}

func tooLarge(row, output int, v float64) *RowError {
	return &RowError{row, fmt.Sprintf("output %d is %g, which float32 cannot represent; "+
		"look for a feature far outside the range of the fit", output, v)}
}

// row64 projects one row in float64, with missing values imputed, for rows and models that exceed float32.
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

// isFloat32 reports whether all values are finite and in the range of float32.
func isFloat32(x []float64) bool {
	for _, v := range x {
		if !(math.Abs(v) < 1<<128) {
			return false
		}
	}
	return true
}

func allFinite(y []float32) bool {
	for _, v := range y {
		if !(v <= math.MaxFloat32 && v >= -math.MaxFloat32) {
			return false
		}
	}
	return true
}
