package frame

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/internal/spell"
)

// Method describes a way to learn a projection, and fits it.
type Method struct {
	Name       string
	Title      string
	Paper      string
	Supervised bool
	Map        string // linear, kernel or extension
	Streaming  string // moments: fits from statistics alone; window: needs the rows
	Params     []Param

	// Dim is the default dimension; nil: 2. Bound is the largest one that the rows allow, and a format that explains it
	// in an error; nil: the rank of the total scatter.
	Dim   func(*Task) int
	Bound func(*Task) (int, string)
	Ridge *RidgeRule                             // nil: no ridge parameter
	Fit   func(context.Context, *Task) *Solution // it ends with an error by package fail
	// NoSamples: the fit needs the rows, but not in Task.X, which fits of methods that need a window have otherwise.
	NoSamples bool
	// Memory is the measured maximum of the memory of a fit in bytes, in addition to its rows; nil: it does not grow with
	// the rows.
	Memory func(Extent) int64
	// MaxRows is the largest number of rows that it can be fitted on; 0: any.
	MaxRows int
	// SecondByClass: the fit reads second moments of every class.
	SecondByClass bool
	// Nested: the first columns at a dimension are the solution for fewer, so that one fit scores all dimensions.
	Nested bool
	// Auto, if set, makes the method a candidate of auto.
	Auto *Candidate
	// InFolds replaces parameters that are auto, other than the ridge, while candidates are compared: they are chosen
	// for the winner only.
	InFolds map[string]string
}

// Candidate is when auto tries a method.
type Candidate struct {
	// Rank orders the candidates, from 1: of two with equal scores the lower one wins.
	Rank int
	// Tried reports whether auto tries the method at d dimensions with this many classes; few: there are few enough
	// rows for slow candidates. nil: always.
	Tried func(d, classes int, few bool) bool
	// OneScale: it is tried at the first scale only, because it is slow or does not depend on the scale.
	OneScale bool
	// Landmarks: it is tried with landmarks too, if auto may be nonlinear.
	Landmarks bool
	// Fixed are parameters that are auto by default and have this value if auto chooses the method.
	Fixed map[string]string
	// Settings are further parameters to try if it is among the best.
	Settings []map[string]string
}

// neighborNames are names that the number of neighbours has elsewhere.
var neighborNames = []string{"knn", "n_neighbors", "neighbors", "neighbours", "nn"}

// Resolve checks the given parameters and adds the defaults of the others.
func (m *Method) Resolve(given map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(m.Params))
	for _, p := range m.Params {
		out[p.Name] = p.Default
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(m.Params, func(p Param) bool { return p.Name == name })
		if i < 0 {
			if len(m.Params) == 0 {
				return nil, fmt.Errorf("method %s has no parameter %q; it takes none", m.Name, name)
			}
			var names []string
			for _, p := range m.Params {
				names = append(names, p.Name)
			}
			meant := ""
			near := spell.Nearest(name, names)
			if slices.Contains(names, "k") && slices.Contains(neighborNames, strings.ToLower(name)) {
				near = "k"
			}
			if near != "" {
				meant = fmt.Sprintf(" (did you mean %q?)", near)
			}
			return nil, fmt.Errorf("method %s has no parameter %q%s; allowed: %s", m.Name, name, meant,
				strings.Join(names, ", "))
		}
		if err := m.Params[i].Check(given[name]); err != nil {
			return nil, fmt.Errorf("method %s, parameter %s: %w", m.Name, name, err)
		}
		out[name] = given[name]
	}
	return out, nil
}

// Samples reports whether the fit looks at the rows themselves, in Task.X.
func (m *Method) Samples() bool { return m.Streaming == "window" && !m.NoSamples }

// MemoryBytes is the maximum memory that a fit of the method needs in addition to its rows.
func (m *Method) MemoryBytes(e Extent) int64 {
	if m.Memory == nil {
		return 0
	}
	return m.Memory(e)
}

// RidgeRule is how a method chooses the relative ridge r of its denominator D + rho I, rho = r tr(D)/columns.
type RidgeRule struct {
	Scatter func(*BasisScatters) *mat.SymDense // that the shrinkage is estimated on
	Grid    []float64                          // candidates of ridge=auto besides oas; nil: auto is oas
	Floor   func(d int) float64                // of oas at dimension d; nil: 0
	// Without is the ridge of auto if no rows can be held out, in place of oas, which is then no candidate; 0: oas.
	Without float64
	Kernels func(*Task) []string // that kernel=auto is chosen from together with the ridge
	Unused  func(*Task) bool     // with these parameters the criterion has no denominator; nil: it always has one
}

func (r *RidgeRule) least(d int) float64 {
	if r.Floor == nil {
		return 0
	}
	return r.Floor(d)
}

// MaxDim is the largest dimension that the rows allow, and a format that explains it.
func (m *Method) MaxDim(t *Task) (int, string) {
	if m.Bound == nil {
		return t.Columns, RankOfTotal
	}
	return m.Bound(t)
}

// ClassDirections is min(C-1, m), the most directions that class means span.
func ClassDirections(t *Task) int { return min(t.Basis.Classes()-1, t.Columns) }

// DiscriminantBound bounds the dimension by C-1 and the rank of the total scatter.
func DiscriminantBound(t *Task) (int, string) {
	if c := t.Basis.Classes() - 1; c <= t.Columns {
		return c, fmt.Sprintf("the %%d discriminant directions of %d classes (C-1)", c+1)
	}
	return t.Columns, RankOfTotal
}

// RowsLessOne bounds the dimension by n-1.
func RowsLessOne(t *Task) (int, string) { return t.Rows.N - 1, "%d, the rows less one" }

// RankOfTotal explains a bound by the rank of the total scatter.
const RankOfTotal = "rank %d of the total scatter"
