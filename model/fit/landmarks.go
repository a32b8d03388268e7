package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
	"github.com/embedd/embedd/model/internal/tile"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// Landmarks are rows whose kernels stand in the place of a row's features: phi(x) = V^(-1/2) U' k(x), where k(x) are the
// kernels exp(-width |x - l|^2 / median) of the row and the L landmarks and U V U' is the matrix of theirs (Williams and
// Seeger, Using the Nyström method to speed up kernel machines, 2001). Products of such features are the kernel of the
// rows, as far as the landmarks span it, so that a linear method in front of them draws curved lines. Config.Landmarks
// asks for them in one fit; who fits again and again keeps them, so that the moments of mapped rows add up. They are
// immutable.
type Landmarks struct {
	mean, scale []float64
	unit        bool
	kernel      mapping.Kernel
	rows        []float64 // L x m, scaled
	norms       []float64 // their squares
	tables      *mapping.Gauss
	back        *mat.Dense // U V^(-1/2), L x rank
	asked       int
	width       float64
	of          model.Scale // of the features that they look at
}

// floor is the share of the largest eigenvalue below which a direction of the landmarks' kernel is left out: it would
// be what rounding makes of it.
const floor = 1e-8

// bandwidthRows bounds the rows of which the median distance is taken.
const bandwidthRows = 1000

// DrawLandmarks draws c.Landmarks rows: of each class its share, of c.Seed. Fewer rows than that are all landmarks.
func DrawLandmarks(ctx context.Context, d *model.Data, c Config) (_ *Landmarks, err error) {
	defer parallel.Recover(&err, "landmarks")
	ctx = parallel.Limit(ctx, c.Workers)
	c = c.withDefaults()
	p, err := c.prepare(ctx, d, &model.Report{})
	if err != nil {
		return nil, err
	}
	return drawLandmarks(ctx, p, c)
}

// prepare checks the rows for landmarks.
func (c Config) prepare(ctx context.Context, d *model.Data, report *model.Report) (*frame.Rows, error) {
	method, err := c.method()
	if err != nil {
		return nil, err
	}
	learns := method.Supervised || c.withDefaults().Method == Auto && presentClasses(d) > 1
	return frame.Prepare(ctx, d, learns, c.Scale == model.ScaleUnit, report)
}

// LandmarksOf are those of a model, where they are as c asks for: so many at most, of such a width and scale.
func LandmarksOf(ctx context.Context, m *model.Model, c Config) (_ *Landmarks, err error) {
	defer parallel.Recover(&err, "landmarks")
	content := m.Content()
	k, ok := content.Map.(*mapping.KernelMap)
	asked, width := fmt.Sprint(c.Landmarks), fmt.Sprint(c.width())
	scale := c.landmarkScale()
	if !ok || content.Params["landmarks"] != asked || content.Params["width"] != width ||
		content.Params["scale"] != string(scale) {
		return nil, fmt.Errorf("the model is not of %s landmarks of width %s, scale %s", asked, width, scale)
	}
	if n := len(k.Rows) / len(content.Mean); n > c.Landmarks {
		return nil, fmt.Errorf("the model says %s landmarks, and has %d", asked, n)
	}
	if k.K.Name != "gauss" || k.K.Origin != nil {
		return nil, fmt.Errorf("the model is not of landmarks: its kernel is %s", k.K.Name)
	}
	l := &Landmarks{mean: content.Mean, scale: content.Scale, unit: content.Unit, kernel: k.K, rows: k.Rows, tables: k.Tables,
		asked: c.Landmarks, width: c.width(), of: scale}
	return l, l.whiten(parallel.Limit(ctx, c.Workers))
}

// Made tells whether LandmarksOf of the model would be these: it is behind the same rows, which look the same to it.
func (l *Landmarks) Made(m *model.Model, c Config) bool {
	content := m.Content()
	k, ok := content.Map.(*mapping.KernelMap)
	return ok && content.Params["landmarks"] == fmt.Sprint(c.Landmarks) && l.asked == c.Landmarks &&
		content.Params["width"] == fmt.Sprint(c.width()) && l.width == c.width() &&
		content.Params["scale"] == string(c.landmarkScale()) && l.of == c.landmarkScale() &&
		k.K.Name == l.kernel.Name && k.K.Origin == nil && slices.Equal(k.K.Param, l.kernel.Param) &&
		content.Unit == l.unit && slices.Equal(content.Mean, l.mean) && slices.Equal(content.Scale, l.scale) &&
		slices.Equal(k.Rows, l.rows)
}

// Len is the number of landmarks.
func (l *Landmarks) Len() int { return len(l.rows) / len(l.mean) }

// Dim is the number of features that they make: fewer than landmarks where some of these are the same row, or nearly.
func (l *Landmarks) Dim() int { _, r := l.back.Dims(); return r }

// Map writes the features that the landmarks make of rows.
func (l *Landmarks) Map(ctx context.Context, dst []float64, rows [][]float64) (err error) {
	defer parallel.Recover(&err, "landmarks")
	for from := 0; from < len(rows); from += mapRows {
		n := min(mapRows, len(rows)-from)
		if err := l.mapSome(ctx, dst[from*l.Dim():(from+n)*l.Dim()], rows[from:from+n]); err != nil {
			return err
		}
	}
	return nil
}

const (
	mapRows = 512 // rows that are mapped at a time
	// exactFrom is the size, in bandwidths, of two rows whose distance is not taken from their product: the rounding of
	// the product would be seen.
	exactFrom = 1e6
)

func (l *Landmarks) mapSome(ctx context.Context, phi []float64, rows [][]float64) error {
	n, m, count := len(rows), len(l.mean), l.Len()
	z, k := make([]float64, n*m), make([]float64, (n*count+7)/8*8)
	err := parallel.Each(ctx, n, func(i int) {
		model.DenseRows(rows[i], 1, m).Scaled(z[i*m:(i+1)*m], 0, l.mean, l.scale, l.unit)
	})
	if err != nil {
		return err
	}
	if err := tile.Add(ctx, tile.Sum{C: k, Stride: count, Alpha: 1, A: tile.Columns(z, m, n, m),
		B: tile.Columns(l.rows, m, count, m)}); err != nil {
		return err
	}
	err = parallel.Each(ctx, n, func(i int) {
		row := z[i*m : (i+1)*m]
		size := linalg.Dot(row, row)
		for j := range count {
			at := &k[i*count+j]
			d := size + l.norms[j] - 2**at
			if !(size+l.norms[j] < exactFrom*l.kernel.Param[0]) {
				d = linalg.SquaredDistance(row, l.rows[j*m:(j+1)*m])
			}
			*at = -max(d, 0) / l.kernel.Param[0]
		}
	})
	if err != nil {
		return err
	}
	tile.Exp(k)
	clear(phi)
	back := l.back.RawMatrix()
	return tile.Add(ctx, tile.Sum{C: phi, Stride: back.Cols, Alpha: 1, A: tile.Columns(k, count, n, count),
		B: tile.Dense(back.Data, count, back.Cols, back.Stride)})
}

// Fit is [Fit] behind the landmarks: of c neither their number nor the scale counts, nor the width.
func (l *Landmarks) Fit(ctx context.Context, d *model.Data, c Config) (_ *model.Model, err error) {
	defer parallel.Recover(&err, c.name())
	ctx = parallel.Limit(ctx, c.Workers)
	report := &model.Report{}
	p, err := c.prepare(ctx, d, report)
	if err != nil {
		return nil, err
	}
	return l.fit(ctx, p, d.Features, c, report)
}

func (l *Landmarks) fit(ctx context.Context, p *frame.Rows, features []string, c Config,
	report *model.Report) (*model.Model, error) {
	phi, err := l.data(ctx, p)
	if err != nil {
		return nil, err
	}
	m, err := Fit(ctx, phi, c.behind())
	if err != nil {
		return nil, fmt.Errorf("behind %d landmarks: %w", l.Len(), err)
	}
	return l.in(m, features, report)
}

// FitMoments is [FitMoments] of statistics of rows that Map has mapped.
func (l *Landmarks) FitMoments(ctx context.Context, s *moments.Set, features, classes []string,
	c Config) (*model.Model, error) {
	m, err := FitMoments(ctx, s, nil, classes, c.behind())
	if err != nil {
		return nil, fmt.Errorf("behind %d landmarks: %w", l.Len(), err)
	}
	return l.in(m, features, &model.Report{Unlabelled: m.Report().Unlabelled})
}

// landmarkScale is the scale of the features that landmarks look at: auto is standard for them.
func (c Config) landmarkScale() model.Scale {
	if c = c.withDefaults(); c.Scale == model.ScaleAuto {
		return model.ScaleStandard
	}
	return c.Scale
}

// behind is how to fit what landmarks make of rows.
func (c Config) behind() Config {
	c.Landmarks, c.Width, c.Scale = 0, 0, model.ScaleNone
	return c
}

// fitLandmarks fits a linear method behind landmarks that are drawn from its rows.
func fitLandmarks(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	report := &model.Report{}
	p, err := c.prepare(ctx, d, report)
	if err != nil {
		return nil, err
	}
	l, err := drawLandmarks(ctx, p, c)
	if err != nil {
		return nil, err
	}
	c.front = &front{p, view{landmarks: c.Landmarks, width: c.width()}, c.Scale}
	return l.fit(ctx, p, d.Features, c, report)
}

func drawLandmarks(ctx context.Context, p *frame.Rows, c Config) (*Landmarks, error) {
	t := &frame.Task{Method: &frame.Method{Name: "landmarks"}, Scaling: c.Scale, Report: &model.Report{}}
	if err := t.Load(ctx, p); err != nil {
		return nil, err
	}
	if t.Columns == 0 {
		return nil, fmt.Errorf("%w over %d rows", errConstant, p.N)
	}
	l := &Landmarks{mean: t.Stat.Mean, scale: t.Stat.Scale, unit: c.Scale == model.ScaleUnit, asked: c.Landmarks,
		width: c.width(), of: c.landmarkScale()}
	kernel, err := mapping.NewKernel(ctx, "gauss", t.Features(frame.Spaced(linalg.Range(p.N), min(p.N, bandwidthRows))), p.M,
		nil)
	if err != nil {
		return nil, err
	}
	kernel.Param[0] /= l.width
	l.kernel = kernel
	l.rows = t.Features(draw(p, c.Landmarks, c.Seed))
	return l, l.whiten(ctx)
}

// whiten finds what makes the kernel of the landmarks the identity.
func (l *Landmarks) whiten(ctx context.Context) error {
	m := len(l.mean)
	gram, err := l.kernel.Gram(ctx, l.rows, m)
	if err != nil {
		return err
	}
	if l.tables == nil {
		l.tables = mapping.NewGauss(l.rows, m, l.kernel.Param[0])
	}
	l.norms = make([]float64, l.Len())
	for i := range l.norms {
		l.norms[i] = linalg.Dot(l.rows[i*m:(i+1)*m], l.rows[i*m:(i+1)*m])
	}
	var eig mat.EigenSym
	if !eig.Factorize(gram, true) {
		return fmt.Errorf("the kernel of %d landmarks has no eigenvectors", gram.SymmetricDim())
	}
	values := eig.Values(nil)
	var u mat.Dense
	eig.VectorsTo(&u)
	n := len(values)
	first := slices.IndexFunc(values, func(v float64) bool { return v > floor*values[n-1] })
	l.back = mat.DenseCopyOf(u.Slice(0, n, first, n))
	for c := first; c < n; c++ {
		for i := range n {
			l.back.Set(i, c-first, l.back.At(i, c-first)/math.Sqrt(values[c]))
		}
	}
	return nil
}

// draw takes so many rows, of each class its share and at least one where there are places for all, in row order. Which ones is drawn from the seed
// and from what is in a row, so that it depends neither on the order that the rows come in nor on the names of the
// classes. Of equal rows of a class a second one comes after all others: as a landmark it adds nothing.
func draw(p *frame.Rows, count int, seed uint64) []int {
	lots := make([]lot, p.N)
	for i := range lots {
		lots[i] = lot{row: i, drawn: hashed(p.X[i*p.M:(i+1)*p.M], seed)}
	}
	of := make([][]lot, max(1, len(p.Classes)))
	for i, l := range lots {
		c := 0
		if p.Y != nil {
			c = p.Y[i]
		}
		of[c] = append(of[c], l)
	}
	of = slices.DeleteFunc(of, func(c []lot) bool { return len(c) == 0 })
	for _, c := range of {
		slices.SortFunc(c, lot.compare)
		for i := range c[1:] {
			if c[i+1].drawn == c[i].drawn {
				c[i+1].again = c[i].again + 1
			}
		}
		slices.SortFunc(c, lot.compare)
	}
	slices.SortFunc(of, func(a, b []lot) int { return a[0].compare(b[0]) })
	var pick []int
	for i, n := range places(of, p.N, count) {
		for _, l := range of[i][:n] {
			pick = append(pick, l.row)
		}
	}
	slices.Sort(pick)
	return pick
}

// places deals count places to classes of n rows in all: to each its share, and one at least, which those that have most
// give back. Of more classes than places the first have one each.
func places(of [][]lot, n, count int) []int {
	taken, all, share := make([]int, len(of)), 0, frame.Shares(n, count)
	for i, c := range of {
		taken[i] = max(1, share(len(c)))
		all += taken[i]
	}
	if len(of) > count {
		clear(taken[count:])
		for i := range count {
			taken[i] = 1
		}
		return taken
	}
	for ; all > count; all-- {
		taken[slices.Index(taken, slices.Max(taken))]--
	}
	return taken
}

// lot is what decides whether a row is drawn: the least ones are.
type lot struct {
	again int // equal rows before it
	drawn uint64
	row   int
}

func (a lot) compare(b lot) int {
	return cmp.Or(cmp.Compare(a.again, b.again), cmp.Compare(a.drawn, b.drawn), cmp.Compare(a.row, b.row))
}

// hashed is a number that values and seed decide, and that looks drawn: each value in turn through the mixing of
// SplitMix64 (Steele, Lea and Flood 2014).
func hashed(values []float64, seed uint64) uint64 {
	h := seed
	for _, v := range values {
		h += math.Float64bits(v+0) + 0x9e3779b97f4a7c15 // v+0: there is one zero
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// data are rows as the landmarks map them.
func (l *Landmarks) data(ctx context.Context, p *frame.Rows) (*model.Data, error) {
	rows := make([][]float64, p.N)
	for i, at := range p.Index {
		rows[i] = p.Data.X[at*p.M : (at+1)*p.M]
	}
	phi := &model.Data{N: p.N, M: l.Dim(), X: make([]float64, p.N*l.Dim()), Y: p.Y, Classes: p.Classes}
	return phi, l.Map(ctx, phi.X, rows)
}

// in is a linear model of what the landmarks make of rows as a model of the features.
func (l *Landmarks) in(m *model.Model, features []string, report *model.Report) (*model.Model, error) {
	a := m.Components()
	if a == nil {
		return nil, fmt.Errorf("method %s is no linear one, and those alone stand behind landmarks", m.Method())
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
	content.Features = slices.Clone(features)
	if content.Features == nil {
		for j := range l.mean {
			content.Features = append(content.Features, fmt.Sprintf("x%d", j))
		}
	}
	content.Unit, content.Float64, content.Mean, content.Scale = l.unit, false, l.mean, l.scale
	content.Map = &mapping.KernelMap{D: dim, Rows: l.rows, Coefficients: coefficients.RawMatrix().Data, Offset: offset,
		K: l.kernel, Tables: l.tables}
	content.Params["landmarks"] = fmt.Sprint(l.asked)
	content.Params["width"] = fmt.Sprint(l.width)
	content.Params["scale"] = string(l.of)
	content.Report.Unlabelled, content.Report.Imputed = report.Unlabelled, report.Imputed
	content.Report.Notes = append(report.Notes, content.Report.Notes...)
	if count < l.asked {
		content.Report.Note(fmt.Sprintf("%d landmarks in place of %d: there are no more rows", count, l.asked))
	}
	if r < count {
		content.Report.Note(fmt.Sprintf("the kernel of %d landmarks has rank %d: some are the same row, or nearly", count, r))
	}
	return model.New(content)
}
