package frame

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/moments"
	"github.com/embedd/embedd/model/pencil"
)

// Task is one fit as its method sees it: statistics and rows in scaled coordinates. With fewer rows than features, the
// coordinates may be coordinates in the space that the rows span.
type Task struct {
	Method     *Method
	Params     map[string]string
	D          int  // outputs; set before the method runs
	DefaultDim bool // D is the method's default
	MaxDim     int  // the largest default dimension; 0: no bound
	Pad        bool // outputs that the criterion leaves undetermined are the directions of largest variance
	padTo      int  // outputs, if the criterion decides fewer
	Outputs    int  // of a linear map: the solution's, and then zero; 0: those of the solution
	Seed       uint64
	// DesignEffect is how many rows are worth one independent row; 0: 1.
	DesignEffect float64
	Scaling      model.Scale
	Progress     func(string, float64)
	Report       *model.Report
	// Memo shares results between fits on the same rows: an evaluation fits a method at several dimensions, and a
	// learned similarity is the same for all. Its fits must not run concurrently. nil: nothing is shared.
	Memo map[string]any

	Rows *Rows        // nil when fitting from moments
	Sums *moments.Set // nil when fitting from rows
	X    *mat.Dense   // n x M rows in the basis, for methods that need them; see Method.Samples
	// Basis has the statistics in the basis of X, Units the mean and the scale of each feature.
	Basis *BasisScatters
	Units *Units
	M     int // columns of X and of Basis: the features, or the columns of axes
	// axes (features x M) is an orthonormal basis of the scaled rows, if they do not vary in every direction; else nil.
	// A direction outside it has no variance.
	axes *mat.Dense
	// Columns is the numerical rank of the total scatter, which ridges are relative to.
	Columns       int
	Ridge         float64 // relative ridge r, set before the method runs
	VarianceShare float64 // of the variance that PCA in front of the method keeps, set with the ridge

	ratio  *Ratio  // of Maximize, once it is built
	Cache  any     // what a method reuses for all ridges
	shared *shared // nil: nothing
}

// Origin is the point that origin=none takes uncentred rows about, as the mean minus that point in scaled coordinates.
// It is zero for standard scaling, which centres.
func (t *Task) Origin() []float64 {
	v := make([]float64, len(t.Units.Mean))
	for j, mean := range t.Units.Mean {
		switch t.Scaling {
		case model.ScaleNone, model.ScaleUnit:
			v[j] = mean
		case model.ScaleMinMax:
			v[j] = (mean - t.Units.low[j]) / t.Units.Scale[j]
		}
	}
	return v
}

// Int is the value of a parameter that is a number.
func (t *Task) Int(name string) int {
	v, _ := strconv.Atoi(t.Params[name]) // checked by the parameter
	return v
}

// Float is the value of a parameter that is a number.
func (t *Task) Float(name string) float64 {
	v, _ := strconv.ParseFloat(t.Params[name], 64)
	return v
}

// Solved makes a solution of an eigenproblem's, and reports its evidence.
func (t *Task) Solved(s *pencil.Solution, informative int) *Solution {
	t.found(s.Gap, s.Ties, s.Residual)
	return t.InBasis(s.Vectors, s.Values, informative)
}

// InBasis makes a solution of columns (M x d) in the basis of the task.
func (t *Task) InBasis(a mat.Matrix, eigenvalues []float64, informative int) *Solution {
	_, d := a.Dims()
	return direct(t, &Solution{Components: mat.DenseCopyOf(a).RawMatrix().Data, Dim: d, Eigenvalues: eigenvalues,
		Informative: informative})
}

// OfFeatures makes a solution of columns among the scaled features (m x d), which may have parts in directions in which
// no row varies.
func (t *Task) OfFeatures(w mat.Matrix, eigenvalues []float64, informative int) *Solution {
	sol := t.InBasis(t.reduce(mat.DenseCopyOf(w)), eigenvalues, informative)
	sol.features = mat.DenseCopyOf(w).RawMatrix().Data
	return sol
}

// Mapped makes a solution that is not linear.
func (t *Task) Mapped(m mapping.Map, eigenvalues []float64, informative int) *Solution {
	return direct(t, &Solution{Dim: m.Dim(), Eigenvalues: eigenvalues, Informative: informative, Mapping: m})
}

// Found reports the evidence of an eigenproblem of rows x rows.
func (t *Task) Found(p *pencil.Part) {
	residual := p.Residual
	if p.Largest > 0 {
		residual /= p.Largest
	}
	t.found(p.Gap, p.Ties, residual)
	for _, n := range p.Notes {
		t.Report.Note("eigenvectors: " + n)
	}
}

func (t *Task) found(gap float64, ties [][2]int, residual float64) {
	if !math.IsInf(gap, 0) {
		t.Report.Gap = &gap
	}
	t.Report.Ties, t.Report.Residual = ties, residual
}

// Explain formats a bound for an error or a note.
func (t *Task) Explain(what string, bound int) string {
	return fmt.Sprintf("%s; n=%g, m=%d", fmt.Sprintf(what, bound), t.Basis.N, len(t.Units.Mean))
}

// ReportProgress reports the phase of the fit and the share of it that is done.
func (t *Task) ReportProgress(phase string, done float64) {
	if t.Progress != nil {
		t.Progress(phase, done)
	}
}

// Expand turns columns in the coordinates of the task into columns among the scaled features: V a.
func (t *Task) Expand(a *mat.Dense) *mat.Dense {
	if t.axes == nil {
		return a
	}
	m, _ := t.axes.Dims()
	_, d := a.Dims()
	full := mat.NewDense(m, d, nil)
	full.Mul(t.axes, a)
	return full
}

// Directions are the columns of a linear solution among the unscaled features, m x d: an output is their product with
// a centred row.
func (t *Task) Directions(sol *Solution) *mat.Dense {
	w := mat.DenseCopyOf(sol.ofFeatures(t))
	eachScale(t, w, func(v, scale float64) float64 { return v / scale })
	return w
}

// Within is the inverse of Directions: it drops the part of the columns in directions in which no row varies.
func (t *Task) Within(w *mat.Dense) *mat.Dense {
	w = mat.DenseCopyOf(w)
	eachScale(t, w, func(v, scale float64) float64 { return v * scale })
	return t.reduce(w)
}

// reduce is the inverse of Expand: V'w.
func (t *Task) reduce(w *mat.Dense) *mat.Dense {
	if t.axes == nil {
		return w
	}
	var a mat.Dense
	a.Mul(t.axes.T(), w)
	return &a
}

func eachScale(t *Task, w *mat.Dense, do func(v, scale float64) float64) {
	for j, s := range t.Units.Scale {
		row := w.RawRowView(j)
		for c, v := range row {
			row[c] = do(v, s)
		}
	}
}

// Training is rows of the task (nil: all) with their embedding of d numbers each.
func (t *Task) Training(rows []int, embedding []float64, d int) mapping.Training {
	return mapping.Training{D: d, Rows: t.Features(rows), Embedding: embedding}
}

// Features are rows of the task (nil: all), n x m, scaled exactly as the projection scales them, so that a row that is
// projected again has distance 0. They have all features, whereas X may be in a basis.
func (t *Task) Features(rows []int) []float64 {
	if rows == nil {
		rows = linalg.Range(t.Rows.N)
	}
	d := t.Rows.Data
	raw := model.DenseRows(d.X, d.N, d.M)
	out := make([]float64, len(rows)*d.M)
	for i, r := range rows {
		raw.Scaled(out[i*d.M:(i+1)*d.M], t.Rows.Index[r], t.Units.Mean, t.Units.Scale, t.Scaling == model.ScaleUnit)
	}
	return out
}

// FeatureRows are the scaled and centred rows with a column for each feature, whereas X may be in a basis. Constant
// features are 0.
func (t *Task) FeatureRows() *mat.Dense {
	x := mat.NewDense(t.Rows.N, len(t.Units.Mean), nil)
	for i := range t.Rows.N {
		row := x.RawRowView(i)
		for j, v := range t.Rows.X[i*t.Rows.M:][:t.Rows.M] {
			if !t.Units.constant[j] {
				row[j] = (v - t.Units.Mean[j]) / t.Units.Scale[j]
			}
		}
	}
	return x
}
