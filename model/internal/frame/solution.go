package frame

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/pencil"
)

// Solution is the result of a fit: a map, the value that each parameter had, and how the fit ended. [Task.Solved],
// [Task.InBasis], [Task.OfFeatures] and [Task.Mapped] make it. Others cannot become a model, because they lack the
// parameters and the convergence.
type Solution struct {
	Components  []float64 // columns x d row-major, in the basis of the task
	Dim         int
	Eigenvalues []float64
	Informative int
	Mapping     mapping.Map // for maps that are not linear: in place of components

	features    []float64 // m x d row-major, if the columns need not be in the space of the rows; nil: by Components
	params      map[string]string
	search      *model.Search
	convergence model.Convergence
}

// direct completes a solution that no search found. The values of its parameters are the given ones, apart from those
// that the task has chosen.
func direct(t *Task, sol *Solution) *Solution {
	sol.params, sol.convergence = maps.Clone(t.Params), model.Direct
	for name, v := range map[string]float64{"ridge": t.Ridge, "pca": t.VarianceShare} {
		if _, has := sol.params[name]; has {
			sol.Use(name, v)
		}
	}
	return sol
}

// Use records the value that a parameter had in the fit, where a word was given, such as auto, or where another value
// prevailed.
func (sol *Solution) Use(name string, v float64) *Solution {
	if given, err := strconv.ParseFloat(sol.params[name], 64); err == nil && given == v {
		return sol // in the form that was given
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if math.IsInf(v, 1) {
		text = "inf"
	}
	sol.params[name] = text
	return sol
}

// Searched records the search that found the solution.
func (sol *Solution) Searched(s *model.Search) *Solution {
	sol.search = s
	if sol.convergence = model.Stopped; s.Converged {
		sol.convergence = model.Converged
	}
	return sol
}

// IsConverged reports whether no search ended early.
func (sol *Solution) IsConverged() bool { return sol.convergence != model.Stopped }

// check reports a solution that does not say how it came about.
func (sol *Solution) check(m *Method) error {
	if sol.convergence == "" {
		return errors.New("its fit does not report its convergence; make the solution with Task.Solved, InBasis, " +
			"OfFeatures or Mapped")
	}
	for _, p := range m.Params {
		switch v, has := sol.params[p.Name]; {
		case !has:
			return fmt.Errorf("its fit does not report parameter %s", p.Name)
		case v == "auto", p.Name == "ridge" && v == "oas":
			return fmt.Errorf("its fit reports parameter %s as %s; record the value that it used with Solution.Use",
				p.Name, v)
		}
	}
	return nil
}

// ofFeatures is the columns of a linear solution among the scaled features, m x d.
func (sol *Solution) ofFeatures(t *Task) *mat.Dense {
	if sol.features != nil {
		return mat.NewDense(len(t.Units.Mean), sol.Dim, sol.features)
	}
	return t.Expand(mat.NewDense(t.M, sol.Dim, sol.Components))
}

// signed is ofFeatures with the signs fixed, row-major.
func (sol *Solution) signed(t *Task) []float64 {
	c := mat.DenseCopyOf(sol.ofFeatures(t))
	pencil.FixSigns(c)
	return c.RawMatrix().Data
}
