package preprocess

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/mapping"
)

// ErrConstant reports rows without a feature that varies.
var ErrConstant = errors.New("no feature varies")

// Spec is how rows are preprocessed before a linear method is fitted on them.
type Spec struct {
	Scale     model.Scale
	Landmarks int     // number of landmarks; 0: none
	Width     float64 // width of the landmarks' kernels
}

// Width is the kernel width of a configured value: 0 means the default, 1.
func Width(configured float64) float64 {
	if configured == 0 {
		return 1
	}
	return configured
}

// CheckScale reports a scale that does not exist. ScaleAuto is not one that rows can have.
func CheckScale(s model.Scale) error {
	switch s {
	case "", model.ScaleStandard, model.ScaleMinMax, model.ScaleUnit, model.ScaleNone, model.ScaleRank:
		return nil
	}
	return fmt.Errorf("unknown scale %q; give one of standard, minmax, unit, none, rank, auto", s)
}

// ScaleNeedsRows reports whether moments are not enough to apply the scale.
func ScaleNeedsRows(s model.Scale) bool {
	return s == model.ScaleMinMax || s == model.ScaleUnit || s == model.ScaleRank
}

// Nonlinear reports whether a linear map of the preprocessed rows is not linear in the features.
func (s Spec) Nonlinear() bool { return s.Landmarks > 0 || s.Scale == model.ScaleRank }

// Kind names what the rows are made of, whatever their scale.
func (s Spec) Kind() string {
	switch {
	case s.Landmarks > 0:
		return "landmarks"
	case s.Scale == model.ScaleRank:
		return "rank"
	}
	return "features"
}

// Memory is the memory in bytes that the preprocessed rows take, in addition to what the method fitted on them holds.
func (s Spec) Memory(e frame.Extent) int64 {
	switch {
	case s.Landmarks > 0:
		e.Features = min(s.Landmarks, e.Rows)
		return e.Copies(2, 0)
	case s.Nonlinear():
		return e.Copies(3, 0)
	}
	return e.Copies(1, 0)
}

// Training is rows, and those of them that preprocessing is fitted on.
type Training struct {
	All, Fitted *frame.Rows
	index       []int // of the fitted rows among all; nil: they are all
}

// NewTraining is all rows, and the subset that preprocessing is fitted on; nil: all.
func NewTraining(all *frame.Rows, subset []int) Training {
	if subset == nil {
		return Training{all, all, nil}
	}
	return Training{all, all.Subset(subset), subset}
}

// subset is the fitted ones of the given rows, which are all rows or what preprocessing made of all.
func (t Training) subset(rows *frame.Rows) *frame.Rows {
	switch {
	case rows == t.All:
		return t.Fitted
	case t.index == nil:
		return rows
	}
	return rows.Subset(t.index)
}

// BySpec sorts items by their specs, in the order in which the specs come first. Consecutive fits of one spec can share
// the rows that it makes.
func BySpec[T any](items []T, spec func(T) Spec) []T {
	first := map[Spec]int{}
	for i, item := range items {
		if _, ok := first[spec(item)]; !ok {
			first[spec(item)] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(items), func(a, b T) int { return first[spec(a)] - first[spec(b)] })
}

// Fit fits the preprocessing on the training rows and applies it to all rows. inner is the scale of the features that
// kernels and normal scores are computed from. memory is what fits share, see [frame.Share]; nil: they share nothing.
func (s Spec) Fit(ctx context.Context, rows Training, inner model.Scale, seed uint64, memory *frame.Scratch) (*Fitted,
	error) {
	p, subset := rows.All, rows.subset
	f, scaling := &Fitted{Rows: p}, s.Scale
	var made *model.Data
	switch {
	case s.Landmarks > 0:
		l, err := DrawLandmarks(ctx, subset(p), Kernels{Count: s.Landmarks, Width: s.Width, Scale: inner}, seed)
		if err != nil {
			return nil, err
		}
		f.landmarks, f.Mean, f.Scale = l, l.mean, l.scale
		if made, err = l.Data(ctx, p); err != nil {
			return nil, err
		}
	case s.Scale == model.ScaleRank:
		t := &frame.Task{Method: &frame.Method{Name: string(s.Scale)}, Scaling: inner, Report: &model.Report{}}
		if err := t.Load(ctx, subset(p)); err != nil {
			return nil, err
		}
		f.ranks = normalScores(t.Features(nil), p.M)
		t.Rows = p
		made = &model.Data{N: p.N, M: p.M, X: t.Features(nil), Y: p.Y, Classes: p.Classes, Groups: p.Groups}
		f.ranks.Apply(made.X)
		f.Mean, f.Scale = t.Units.Mean, t.Units.Scale
	}
	if made != nil {
		var err error
		if f.Rows, err = frame.Prepare(ctx, made, p.Y != nil, false, &model.Report{}); err != nil {
			return nil, err
		}
		scaling = model.ScaleNone
	}
	f.Task = &frame.Task{Method: &anyMethod, Scaling: scaling, Seed: seed, Report: &model.Report{}}
	if p.Y == nil {
		f.Task.Method = &frame.Method{Name: anyMethod.Name, Streaming: "window"}
	}
	if memory != nil {
		frame.Share(f.Task, memory)
	}
	return f, f.Task.Load(ctx, subset(f.Rows))
}

// FitMoments is Fit of a linear spec on the moments that a task was loaded from.
func (s Spec) FitMoments(ctx context.Context, t *frame.Task) (*Fitted, error) {
	f := &Fitted{Task: &frame.Task{Method: &anyMethod, Scaling: s.Scale, Seed: t.Seed, Report: &model.Report{}}}
	return f, f.Task.LoadSums(ctx, t.Sums)
}

// anyMethod loads what every candidate needs: the samples and the statistics of labelled rows.
var anyMethod = frame.Method{Name: "auto", Supervised: true, Streaming: "window"}

// Fitted is preprocessing that was fitted, with the rows it makes.
type Fitted struct {
	Task        *frame.Task // the training rows, with their statistics
	Rows        *frame.Rows // all rows, held-out ones too
	Mean, Scale []float64   // of the features, where the spec is nonlinear
	ranks       *mapping.Ranks
	landmarks   *Landmarks
}

// AddTo adds directions (columns x d) of nonlinear preprocessed rows, about their mean, to a sum of maps.
func (f *Fitted) AddTo(sum *mapping.Sum, w *mat.Dense, mean []float64) {
	var shift mat.VecDense
	shift.MulVec(w.T(), mat.NewVecDense(len(mean), slices.Clone(mean)))
	for c := range sum.Offset {
		sum.Offset[c] -= shift.AtVec(c)
	}
	if f.ranks != nil {
		sum.Ranks = f.ranks
		sum.Ranked = Plus(sum.Ranked, w)
		return
	}
	l := f.landmarks
	var coefficients mat.Dense
	coefficients.Mul(l.back, w)
	if sum.Kernel == nil {
		sum.Kernel = &mapping.KernelMap{D: sum.D, Rows: l.rows, K: l.kernel}
	}
	sum.Kernel.Coefficients = Plus(sum.Kernel.Coefficients, &coefficients)
}

// Plus adds w to row-major numbers, nil for none yet.
func Plus(to []float64, w *mat.Dense) []float64 {
	data := mat.DenseCopyOf(w).RawMatrix().Data
	for i, v := range to {
		data[i] += v
	}
	return data
}

// Applied is preprocessing that was fitted on all rows before a fit sees them. Cross-validation inside that fit has to
// fit it again on the training rows of each fold.
type Applied struct {
	Rows  *frame.Rows // before preprocessing
	Spec  Spec
	Inner model.Scale
}

// Refit fits the preprocessing on the training rows and returns all rows as it makes them.
func (a *Applied) Refit(ctx context.Context, train []int, seed uint64) (*frame.Rows, error) {
	f, err := a.Spec.Fit(ctx, NewTraining(a.Rows, train), a.Inner, seed, nil)
	if err != nil {
		return nil, err
	}
	return f.Rows, nil
}

// Subset is the same preprocessing of some of the rows.
func (a *Applied) Subset(rows []int) *Applied { return &Applied{a.Rows.Subset(rows), a.Spec, a.Inner} }
