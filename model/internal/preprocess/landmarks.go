package preprocess

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/pencil"
)

// Kernels are the kernels that replace the features.
type Kernels struct {
	Count int // of landmarks
	Width float64
	Scale model.Scale // of the features; "" and auto: standard
}

func (k Kernels) withDefaults() Kernels {
	k.Width = Width(k.Width)
	if k.Scale == "" || k.Scale == model.ScaleAuto {
		k.Scale = model.ScaleStandard
	}
	return k
}

// params are the kernels as the parameters of a model.
func (k Kernels) params() map[string]string {
	return map[string]string{"landmarks": fmt.Sprint(k.Count), "width": fmt.Sprint(k.Width), "scale": string(k.Scale)}
}

// mapOf is the map of a model that was fitted with these kernels, or with fewer landmarks.
func (k Kernels) mapOf(c model.Content) (*mapping.KernelMap, error) {
	km, ok := c.Map.(*mapping.KernelMap)
	for name, v := range k.params() {
		ok = ok && c.Params[name] == v
	}
	if !ok {
		return nil, fmt.Errorf("the model was not fitted with %d landmarks of width %g, scale %s", k.Count, k.Width, k.Scale)
	}
	if n := len(km.Rows) / len(c.Mean); n > k.Count {
		return nil, fmt.Errorf("the model's parameters say %d landmarks, but it has %d", k.Count, n)
	}
	if km.K.Name != "gauss" || km.K.Origin != nil {
		return nil, fmt.Errorf("the model has no landmarks: its kernel is %s", km.K.Name)
	}
	return km, nil
}

// Landmarks are rows whose kernels replace a row's features: phi(x) = V^(-1/2) U' k(x), where k(x) are the kernels
// exp(-width |x - l|^2 / median) of the row and the L landmarks, and U V U' is the kernel matrix of the landmarks. This
// is the Nyström approximation of the kernel's feature map (Williams and Seeger, Using the Nyström method to speed up
// kernel machines, 2001). Landmarks are immutable.
type Landmarks struct {
	mean, scale []float64
	unit        bool
	kernel      mapping.Kernel
	rows        []float64 // L x m, scaled
	norms       []float64 // squared norms of rows
	tables      *mapping.Gauss
	back        *mat.Dense // U V^(-1/2), L x rank
	asked       Kernels
}

// eigenvalueFloor is the share of the largest eigenvalue below which a direction of the landmarks' kernel matrix is
// left out as rounding error.
const eigenvalueFloor = 1e-8

// maxBandwidthRows is the maximum number of rows from which the median distance is estimated.
const maxBandwidthRows = 1000

// DrawLandmarks draws landmarks from the rows, stratified by class. Of fewer rows than landmarks it takes all.
func DrawLandmarks(ctx context.Context, p *frame.Rows, k Kernels, seed uint64) (_ *Landmarks, err error) {
	defer fail.Catch(&err)
	k = k.withDefaults()
	t := &frame.Task{Method: &frame.Method{Name: "landmarks"}, Scaling: k.Scale, Report: &model.Report{}}
	fail.Check(t.Load(ctx, p))
	if t.Columns == 0 {
		return nil, fmt.Errorf("%w over %d rows", ErrConstant, p.N)
	}
	l := &Landmarks{mean: t.Units.Mean, scale: t.Units.Scale, unit: k.Scale == model.ScaleUnit, asked: k}
	some := frame.Spaced(linalg.Range(p.N), min(p.N, maxBandwidthRows))
	l.kernel = fail.Must(mapping.NewKernel(ctx, "gauss", t.Features(some), p.M, nil))
	l.rows = compress(ctx, t.Features(draw(p, k.Count, seed)), p.M, l.kernel.Param[0], k.Width)
	l.kernel.Param[0] /= k.Width
	l.whiten(ctx)
	return l, nil
}

// LandmarksOf returns the landmarks of a model that was fitted with these kernels, or with fewer landmarks because
// there were fewer rows.
func LandmarksOf(ctx context.Context, m *model.Model, k Kernels) (_ *Landmarks, err error) {
	defer fail.Catch(&err)
	k = k.withDefaults()
	content := m.Content()
	km := fail.Must(k.mapOf(content))
	l := &Landmarks{mean: content.Mean, scale: content.Scale, unit: content.Unit, kernel: km.K, rows: km.Rows,
		tables: km.Tables, asked: k}
	l.whiten(ctx)
	return l, nil
}

// Match reports whether LandmarksOf of the model with these kernels would return these landmarks.
func (l *Landmarks) Match(m *model.Model, k Kernels) bool {
	k = k.withDefaults()
	content := m.Content()
	km, err := k.mapOf(content)
	return err == nil && l.asked == k && slices.Equal(km.K.Param, l.kernel.Param) &&
		content.Unit == l.unit && slices.Equal(content.Mean, l.mean) && slices.Equal(content.Scale, l.scale) &&
		slices.Equal(km.Rows, l.rows)
}

// Len is the number of landmarks.
func (l *Landmarks) Len() int { return len(l.rows) / len(l.mean) }

// Dim is the number of features that they make. It is less than Len where some landmarks are (nearly) the same row.
func (l *Landmarks) Dim() int { _, r := l.back.Dims(); return r }

// Map writes the features that the landmarks make of rows.
func (l *Landmarks) Map(ctx context.Context, dst []float64, rows [][]float64) (err error) {
	defer parallel.Recover(&err, "landmarks")
	if len(dst) < len(rows)*l.Dim() {
		return fmt.Errorf("landmarks: room for %d numbers; %d rows of %d features need %d", len(dst), len(rows), l.Dim(),
			len(rows)*l.Dim())
	}
	for i, row := range rows {
		if len(row) != len(l.mean) {
			return fmt.Errorf("landmarks: row %d has %d features, the landmarks have %d", i, len(row), len(l.mean))
		}
	}
	most := min(mapRows, len(rows))
	z, k := make([]float64, most*len(l.mean)), make([]float64, (most*l.Len()+tile.Lanes-1)/tile.Lanes*tile.Lanes)
	for from := 0; from < len(rows); from += mapRows {
		n := min(mapRows, len(rows)-from)
		l.mapBatch(ctx, dst[from*l.Dim():(from+n)*l.Dim()], rows[from:from+n], z, k)
	}
	return nil
}

const mapRows = 512 // rows mapped in one batch

// mapBatch maps rows, with z and k for the scaled rows and their kernels.
func (l *Landmarks) mapBatch(ctx context.Context, phi []float64, rows [][]float64, z, k []float64) {
	n, m, count := len(rows), len(l.mean), l.Len()
	clear(k)
	fail.Check(parallel.Each(ctx, n, func(i int) {
		model.DenseRows(rows[i], 1, m).Scaled(z[i*m:(i+1)*m], 0, l.mean, l.scale, l.unit)
	}))
	fail.Check(tile.Add(ctx, tile.Sum{C: k, Stride: count, Alpha: 1, A: tile.Columns(z, m, n, m),
		B: tile.Columns(l.rows, m, count, m)}))
	fail.Check(parallel.Each(ctx, n, func(i int) {
		row := z[i*m : (i+1)*m]
		size := linalg.Dot(row, row)
		for j := range count {
			at := &k[i*count+j]
			d := size + l.norms[j] - 2**at
			if !(size+l.norms[j] < mapping.MinExact*l.kernel.Param[0]) {
				d = linalg.SquaredDistance(row, l.rows[j*m:(j+1)*m])
			}
			*at = -max(d, 0) / l.kernel.Param[0]
		}
	}))
	tile.Exp(k)
	clear(phi)
	back := l.back.RawMatrix()
	fail.Check(tile.Add(ctx, tile.Sum{C: phi, Stride: back.Cols, Alpha: 1, A: tile.Columns(k, count, n, count),
		B: tile.Dense(back.Data, count, back.Cols, back.Stride)}))
}

// whiten computes U V^(-1/2), which turns the kernel matrix of the landmarks into the identity.
func (l *Landmarks) whiten(ctx context.Context) {
	m := len(l.mean)
	gram := fail.Must(l.kernel.Gram(ctx, l.rows, m))
	if l.tables == nil {
		l.tables = mapping.NewGauss(l.rows, m, l.kernel.Param[0])
	}
	l.norms = make([]float64, l.Len())
	for i := range l.norms {
		l.norms[i] = linalg.Dot(l.rows[i*m:(i+1)*m], l.rows[i*m:(i+1)*m])
	}
	fail.Check(ctx.Err()) // what follows is not interrupted
	var eig mat.EigenSym
	if !eig.Factorize(gram, true) {
		panic(fail.With(fmt.Errorf("the kernel matrix of %d landmarks has no eigenvectors", gram.SymmetricDim())))
	}
	values := eig.Values(nil)
	var u mat.Dense
	eig.VectorsTo(&u)
	n := len(values)
	first := slices.IndexFunc(values, func(v float64) bool { return v > eigenvalueFloor*values[n-1] })
	l.back = mat.DenseCopyOf(u.Slice(0, n, first, n))
	for c := first; c < n; c++ {
		for i := range n {
			l.back.Set(i, c-first, l.back.At(i, c-first)/math.Sqrt(values[c]))
		}
	}
}

// Data are the rows as the landmarks map them.
func (l *Landmarks) Data(ctx context.Context, p *frame.Rows) (*model.Data, error) {
	rows := make([][]float64, p.N)
	for i, at := range p.Index {
		rows[i] = p.Data.X[at*p.M : (at+1)*p.M]
	}
	phi := &model.Data{N: p.N, M: l.Dim(), X: make([]float64, p.N*l.Dim()), Y: p.Y, Classes: p.Classes, Groups: p.Groups}
	return phi, l.Map(ctx, phi.X, rows)
}

// Compose turns a linear model of the rows that the landmarks map into a model of the features. report is that of
// preparing the original rows.
func (l *Landmarks) Compose(m *model.Model, features []string, report *model.Report) (*model.Model, error) {
	a := m.Components()
	if a == nil {
		return nil, fmt.Errorf("method %s is not linear; landmarks need a linear method", m.Method())
	}
	r, dim, count := m.M(), m.Dim(), l.Len()
	w := mat.NewDense(r, dim, a)
	offset, mean := make([]float64, dim), m.Mean()
	for j, v := range m.Scale() {
		row := w.RawRowView(j)
		for i := range row {
			row[i] /= v
			offset[i] -= mean[j] * row[i]
		}
	}
	var coefficients mat.Dense
	coefficients.Mul(l.back, w)
	given := mat.DenseCopyOf(&coefficients)
	pencil.FixSigns(&coefficients)
	for i := range dim {
		if mat.Dot(given.ColView(i), coefficients.ColView(i)) < 0 {
			offset[i] *= -1
		}
	}
	content := m.Content()
	content.Features = frame.FeatureNames(features, len(l.mean))
	content.Unit, content.Float64, content.Mean, content.Scale = l.unit, false, l.mean, l.scale
	content.Map = &mapping.KernelMap{D: dim, Rows: l.rows, Coefficients: coefficients.RawMatrix().Data, Offset: offset,
		K: l.kernel, Tables: l.tables}
	maps.Copy(content.Params, l.asked.params())
	content.Report.Unlabelled, content.Report.Imputed = report.Unlabelled, report.Imputed
	content.Report.Notes = append(report.Notes, content.Report.Notes...)
	if count < l.asked.Count {
		content.Report.Note(fmt.Sprintf("%d landmarks instead of %d: there are no more rows", count, l.asked.Count))
	}
	if r < count {
		content.Report.Note(fmt.Sprintf("the kernel matrix of %d landmarks has rank %d: some are (nearly) the same row",
			count, r))
	}
	return model.New(content)
}
