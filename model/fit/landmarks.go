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
	"github.com/embedd/embedd/model/pencil"
)

// space is the features that landmarks make of a row: phi(x) = V^(-1/2) U' k(x), where k(x) are the kernels
// exp(-width |x - l|^2 / median) of the row and the L landmarks and U V U' is the matrix of theirs (Williams and
// Seeger, Using the Nyström method to speed up kernel machines, 2001). Products of such features are the kernel of the
// rows, as far as the landmarks span it, so that a linear method in front of them draws curved lines.
type space struct {
	mean, scale []float64
	unit        bool
	kernel      mapping.Kernel
	rows        []float64  // L x m, scaled
	back        *mat.Dense // U V^(-1/2), L x rank
	asked       int
}

// floor is the share of the largest eigenvalue below which a direction of the landmarks' kernel is left out: it would
// be what rounding makes of it.
const floor = 1e-8

// bandwidthRows bounds the rows of which the median distance is taken.
const bandwidthRows = 1000

// fitLandmarks fits a linear method behind landmarks.
func fitLandmarks(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	method, err := c.method()
	if err != nil {
		return nil, err
	}
	report := &model.Report{}
	learns := method.Supervised || c.Method == Auto && presentClasses(d) > 1
	p, err := frame.Prepare(d, learns, c.Scale == model.ScaleUnit, report)
	if err != nil {
		return nil, err
	}
	s, err := newSpace(ctx, p, c)
	if err != nil {
		return nil, err
	}
	phi, err := s.data(ctx, p)
	if err != nil {
		return nil, err
	}
	behind := c
	behind.Landmarks, behind.Scale = 0, model.ScaleNone
	m, err := Fit(ctx, phi, behind)
	if err != nil {
		return nil, fmt.Errorf("behind %d landmarks: %w", len(s.rows)/p.M, err)
	}
	return s.in(m, d, c, report)
}

func newSpace(ctx context.Context, p *frame.Rows, c Config) (*space, error) {
	t := &frame.Task{Method: &frame.Method{Name: "landmarks"}, Scaling: c.Scale, Report: &model.Report{}}
	if err := t.Load(ctx, p); err != nil {
		return nil, err
	}
	if t.Columns == 0 {
		return nil, fmt.Errorf("no feature varies over %d rows", p.N)
	}
	s := &space{mean: t.Stat.Mean, scale: t.Stat.Scale, unit: c.Scale == model.ScaleUnit, asked: c.Landmarks}
	kernel, err := mapping.NewKernel(ctx, "gauss", t.Features(frame.Spaced(linalg.Range(p.N), min(p.N, bandwidthRows))), p.M,
		nil)
	if err != nil {
		return nil, err
	}
	kernel.Param[0] /= c.width()
	s.kernel = kernel
	s.rows = t.Features(draw(p, c.Landmarks, c.Seed))
	gram, err := kernel.Gram(ctx, s.rows, p.M)
	if err != nil {
		return nil, err
	}
	var eig mat.EigenSym
	if !eig.Factorize(gram, true) {
		return nil, fmt.Errorf("the kernel of %d landmarks has no eigenvectors", gram.SymmetricDim())
	}
	values := eig.Values(nil)
	var u mat.Dense
	eig.VectorsTo(&u)
	l := len(values)
	first := slices.IndexFunc(values, func(v float64) bool { return v > floor*values[l-1] })
	s.back = mat.DenseCopyOf(u.Slice(0, l, first, l))
	for c := first; c < l; c++ {
		for i := range l {
			s.back.Set(i, c-first, s.back.At(i, c-first)/math.Sqrt(values[c]))
		}
	}
	return s, nil
}

// draw takes so many rows, of each class its share and at least one, in row order. Which ones is drawn from the seed
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
	share := frame.Shares(p.N, count)
	var pick []int
	for _, c := range of {
		for _, l := range c[:min(len(c), max(1, share(len(c))))] {
			pick = append(pick, l.row)
		}
	}
	slices.Sort(pick)
	return pick
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

// data are the rows in the space.
func (s *space) data(ctx context.Context, p *frame.Rows) (*model.Data, error) {
	m := p.M
	l := len(s.rows) / m
	_, r := s.back.Dims()
	ready := s.kernel.Ready(s.rows, m)
	k := mat.NewDense(p.N, l, nil)
	raw := model.DenseRows(p.Data.X, p.Data.N, m)
	const some = 64
	err := parallel.Each(ctx, (p.N+some-1)/some, func(part int) {
		z, taken := make([]float64, m), make([]float64, m)
		for i := part * some; i < min((part+1)*some, p.N); i++ {
			raw.Scaled(z, p.Index[i], s.mean, s.scale, s.unit)
			norm := ready.Take(taken, z)
			row := k.RawRowView(i)
			for j := range row {
				row[j] = ready.At(taken, norm, j)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	phi := &model.Data{N: p.N, M: r, X: make([]float64, p.N*r), Y: p.Y, Classes: p.Classes}
	mat.NewDense(p.N, r, phi.X).Mul(k, s.back)
	return phi, nil
}

// in is a linear model of the space as a model of the features.
func (s *space) in(m *model.Model, d *model.Data, c Config, report *model.Report) (*model.Model, error) {
	a := m.Components()
	if a == nil {
		return nil, fmt.Errorf("method %s is no linear one, and those alone stand behind landmarks", m.Method())
	}
	r, dim := m.M(), m.Dim()
	w := mat.NewDense(r, dim, a)
	for j, v := range m.Scale() {
		row := w.RawRowView(j)
		for i := range row {
			row[i] /= v
		}
	}
	var coefficients mat.Dense
	coefficients.Mul(s.back, w)
	pencil.FixSigns(&coefficients)
	content := m.Content()
	content.Features = slices.Clone(d.Features)
	if content.Features == nil {
		for j := range d.M {
			content.Features = append(content.Features, fmt.Sprintf("x%d", j))
		}
	}
	content.Unit, content.Float64, content.Mean, content.Scale = s.unit, false, s.mean, s.scale
	content.Map = &mapping.KernelMap{D: dim, Rows: s.rows, Coefficients: coefficients.RawMatrix().Data, K: s.kernel}
	content.Params["landmarks"] = fmt.Sprint(c.Landmarks)
	content.Params["width"] = fmt.Sprint(c.width())
	content.Report.Unlabelled, content.Report.Imputed = report.Unlabelled, report.Imputed
	content.Report.Notes = append(report.Notes, content.Report.Notes...)
	l := len(s.rows) / d.M
	if l < s.asked {
		content.Report.Note(fmt.Sprintf("%d landmarks in place of %d: there are no more rows", l, s.asked))
	}
	if r < l {
		content.Report.Note(fmt.Sprintf("the kernel of %d landmarks has rank %d: some are the same row, or nearly", l, r))
	}
	return model.New(content)
}
