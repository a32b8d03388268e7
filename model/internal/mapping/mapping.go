package mapping

import (
	"fmt"
	"math"

	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/tile"
)

// CheckNames returns an error if two features, or two classes, have one name.
func CheckNames(features, classes []string) error {
	for i, names := range [][]string{features, classes} {
		seen := make(map[string]bool, len(names))
		for _, name := range names {
			if seen[name] {
				return fmt.Errorf("two %s are named %q; rename one", []string{"features", "classes"}[i], name)
			}
			seen[name] = true
		}
	}
	return nil
}

// number is the only value of an array.
func number(a Array) float64 {
	if len(a.Data) != 1 {
		panic(fail.With(fmt.Errorf("%d numbers in %s, 1 is needed", len(a.Data), a.Name)))
	}
	return a.Data[0]
}

// count is the only value of an array, an integer from 0.
func count(a Array) int {
	return fail.Must(whole(a.Name, number(a), math.MaxInt32))
}

// whole is an integer in [0, limit).
func whole(name string, v, limit float64) (int, error) {
	if !(v >= 0 && v < limit) || v != math.Trunc(v) {
		return 0, fmt.Errorf("%s holds %g; it must be an integer from 0 and below %g", name, v, limit)
	}
	return int(v), nil
}

// named reports whether the arrays start with these names, with these numbers of axes.
func named(arrays []Array, names []string, axes []int) bool {
	if len(arrays) < len(names) {
		return false
	}
	for i, name := range names {
		if arrays[i].Name != name || len(arrays[i].Shape) != axes[i] {
			return false
		}
	}
	return true
}

// Map is the part of a model that turns a scaled row into outputs. It is stored as named arrays and rebuilt from them,
// see Kinds.
type Map interface {
	Kind() string
	Dim() int
	Check(m, classes int) error // that shapes match each other, m features and the classes
	Arrays() []Array
}

// ProductMap is a map that needs nothing of a row but dot products.
type ProductMap interface {
	Map
	// Weights are the vectors whose dot products with the scaled row Finish needs, width x m row-major, and one constant
	// to add to each (nil: none).
	Weights() (width int, w, offset []float64)
	// Finish turns the dot products y of one row into its outputs and returns the index of its class, or -1 if the map
	// does not classify.
	Finish(dst, y []float32) int
}

// RowMap is a map that needs the scaled row itself: for distances from rows of the fit, or for kernels.
type RowMap interface {
	Map
	Extension(m int) (Extension, error) // the map with the tables that it needs to project rows
}

// Extension projects up to AtOnce scaled rows z at once. Rows and outputs are row-major; the outputs of a row do not
// depend on the other rows. It is immutable; what changes from row to row is in a workspace, on whose previous contents
// the outputs do not depend.
type Extension interface {
	Cost() int // of a row, in comparisons with a row of the fit
	AtOnce() int
	Workspace() *Workspace
	// Project writes the outputs of n rows to dst. It ends at the first row that has none, and returns how many have.
	Project(dst, z []float64, n int, w *Workspace) (int, error)
}

// Together is the number of rows that products compare side by side.
const Together = tile.Together

// Array is a named float64 array, row-major.
type Array struct {
	Name  string
	Shape []int
	Data  []float64
}
