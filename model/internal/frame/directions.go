package frame

import (
	"gonum.org/v1/gonum/mat"
)

// Directions are the columns of a linear solution among the features in their own units, m x d: an output is
// their product with a centred row.
func (t *Task) Directions(sol *Solution) *mat.Dense {
	w := mat.DenseCopyOf(t.Expand(mat.NewDense(t.M, sol.Dim, sol.Components)))
	t.eachScale(w, func(v, scale float64) float64 { return v / scale })
	return w
}

// Within is the inverse of Directions: columns among the features in their own units, as columns of the task. What of
// them lies where no row varies is gone.
func (t *Task) Within(w *mat.Dense) *mat.Dense {
	w = mat.DenseCopyOf(w)
	t.eachScale(w, func(v, scale float64) float64 { return v * scale })
	if t.basis == nil {
		return w
	}
	var a mat.Dense
	a.Mul(t.basis.T(), w)
	return &a
}

func (t *Task) eachScale(w *mat.Dense, do func(v, scale float64) float64) {
	for j, s := range t.Stat.Scale {
		row := w.RawRowView(j)
		for c, v := range row {
			row[c] = do(v, s)
		}
	}
}
