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
// coordinates are those of the space that the rows span.
type Task struct {
	Method     *Method
	Params     map[string]string
	D          int  // outputs; set before the method runs
	DefaultDim bool // D is the method's default
	Pad        bool // outputs that the criterion leaves undetermined are the directions of largest variance
	padTo      int  // outputs, if the criterion decides fewer
	Outputs    int  // of a linear map: the solution's, and then zero; 0: those of the solution
	Seed       uint64
	Scaling    model.Scale
	Progress   func(string, float64)
	Report     *model.Report
	Memo       *Memo // nil: nothing is shared with other fits

	Rows *Rows        // nil when fitting from moments
	Sums *moments.Set // nil when fitting from rows
	X    *mat.Dense   // n x m rows in the task's coordinates, for methods that need them; see Method.Samples
	Stat *Scatters
	M    int // columns of Stat: the features, or the columns of basis
	// basis (features x M) is an orthonormal basis of the scaled rows, if they do not vary in every direction; else nil.
	// A direction outside it has no variance.
	basis *mat.Dense
	// Columns is the numerical rank of the total scatter, which ridges are relative to.
	Columns       int
	Ridge         float64 // relative ridge r, set before the method runs
	VarianceShare float64 // of the variance that PCA in front of the method keeps, set with the ridge

	criterion *criterion // of Maximize, once it is built
	Cache     any        // what a method reuses for all ridges
}

// Origin is the point that origin=none takes uncentred rows about, as the mean minus that point in scaled coordinates.
// It is zero for standard scaling, which centres.
func (t *Task) Origin() []float64 {
	v := make([]float64, len(t.Stat.Mean))
	for j, mean := range t.Stat.Mean {
		switch t.Scaling {
		case model.ScaleNone, model.ScaleUnit:
			v[j] = mean
		case model.ScaleMinMax:
			v[j] = (mean - t.Stat.low[j]) / t.Stat.Scale[j]
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

// Solution is the result of a fit, in the coordinates of its task.
type Solution struct {
	Components  []float64 // columns x d row-major
	Dim         int
	Eigenvalues []float64
	Informative int
	Mapping     mapping.Map // for maps that are not linear: in place of components
}

// Solved makes a solution of an eigenproblem's, and reports its evidence.
func (t *Task) Solved(s *pencil.Solution, informative int) *Solution {
	if !math.IsInf(s.Gap, 0) {
		gap := s.Gap
		t.Report.Gap = &gap
	}
	t.Report.Ties = s.Ties
	t.Report.Residual = s.Residual
	_, d := s.Vectors.Dims()
	return &Solution{Components: mat.DenseCopyOf(s.Vectors).RawMatrix().Data, Dim: d,
		Eigenvalues: s.Values, Informative: informative}
}

// Found reports the evidence of an eigenproblem of rows x rows.
func (t *Task) Found(p *pencil.Part) {
	if !math.IsInf(p.Gap, 0) {
		gap := p.Gap
		t.Report.Gap = &gap
	}
	t.Report.Ties = p.Ties
	if p.Largest > 0 {
		t.Report.Residual = p.Residual / p.Largest
	}
	for _, n := range p.Notes {
		t.Report.Note("eigenvectors: " + n)
	}
}

// Explain formats a bound for an error or a note.
func (t *Task) Explain(what string, bound int) string {
	return fmt.Sprintf("%s; n=%g, m=%d", fmt.Sprintf(what, bound), t.Stat.N, len(t.Stat.Mean))
}

// ReportProgress reports the phase of the fit and the share of it that is done.
func (t *Task) ReportProgress(phase string, done float64) {
	if t.Progress != nil {
		t.Progress(phase, done)
	}
}

// Expand turns columns in the coordinates of the task into columns among the scaled features: V a.
func (t *Task) Expand(a *mat.Dense) *mat.Dense {
	if t.basis == nil {
		return a
	}
	m, _ := t.basis.Dims()
	_, d := a.Dims()
	full := mat.NewDense(m, d, nil)
	full.Mul(t.basis, a)
	return full
}

// unreduce is Expand with the signs fixed among the features.
func (t *Task) unreduce(a []float64, d int) []float64 {
	c := mat.DenseCopyOf(t.Expand(mat.NewDense(t.M, d, a)))
	pencil.FixSigns(c)
	return c.RawMatrix().Data
}

// Directions are the columns of a linear solution among the unscaled features, m x d: an output is their product with
// a centred row.
func (t *Task) Directions(sol *Solution) *mat.Dense {
	w := mat.DenseCopyOf(t.Expand(mat.NewDense(t.M, sol.Dim, sol.Components)))
	eachScale(t, w, func(v, scale float64) float64 { return v / scale })
	return w
}

// Within is the inverse of Directions: it drops the part of the columns in directions in which no row varies.
func (t *Task) Within(w *mat.Dense) *mat.Dense {
	w = mat.DenseCopyOf(w)
	eachScale(t, w, func(v, scale float64) float64 { return v * scale })
	if t.basis == nil {
		return w
	}
	var a mat.Dense
	a.Mul(t.basis.T(), w)
	return &a
}

func eachScale(t *Task, w *mat.Dense, do func(v, scale float64) float64) {
	for j, s := range t.Stat.Scale {
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
		raw.Scaled(out[i*d.M:(i+1)*d.M], t.Rows.Index[r], t.Stat.Mean, t.Stat.Scale, t.Scaling == model.ScaleUnit)
	}
	return out
}

// criterion is the numerator and the denominator of a ratio.
type criterion struct{ n, d *mat.SymDense }
