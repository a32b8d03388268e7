package mapping

import (
	"fmt"
	"math"

	"github.com/embedd/embedd/model/internal/tile"
)

// number is the one number of an array.
func number(a Array) (float64, error) {
	if len(a.Data) != 1 {
		return 0, fmt.Errorf("%d numbers in %s, 1 is needed", len(a.Data), a.Name)
	}
	return a.Data[0], nil
}

// count is the one number of an array, an integer of at least 0.
func count(a Array) (int, error) {
	v, err := number(a)
	if err != nil {
		return 0, err
	}
	return whole(a.Name, v, math.MaxInt32)
}

// whole is an integer in [0, limit).
func whole(name string, v, limit float64) (int, error) {
	if !(v >= 0 && v < limit) || v != math.Trunc(v) {
		return 0, fmt.Errorf("%s holds %g; it must be an integer from 0 and below %g", name, v, limit)
	}
	return int(v), nil
}

// named says whether the arrays start with these names, of these numbers of axes.
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

// Map is the part of a model that turns a scaled row into outputs. Each
// kind is one file; it is stored as its named arrays and rebuilt from them
// (mappingKinds).
type Map interface {
	Kind() string
	Dim() int
	Check(m, classes int) error // shapes fit each other, the model's m and its number of classes
	Arrays() []Array
}

// ProductMap is a mapping that needs nothing of a row but dot products.
type ProductMap interface {
	Map
	// weights are the vectors whose dot product with the scaled row finish
	// needs: width x m row-major, and one constant for each (nil: none).
	Weights() (width int, w, offset []float64)
	// finish turns the dot products y of one row into its outputs and returns
	// the index of its class, -1 where the kind does not classify.
	Finish(dst, y []float32) int
}

// RowMap is a mapping that needs the scaled row itself: it looks at its
// distances from rows of the fit, or at a kernel of it and them.
type RowMap interface {
	Map
	Extension(m int) (Extension, error) // the mapping with the tables that it places rows by
}

// Extension places rows. It is immutable; what a row needs is in a workspace of its own.
type Extension interface {
	Cost() int // of a row, in rows of the fit that it is compared with
	Workspace() *Workspace
	// place writes the outputs of the scaled row z to dst. What stands in the
	// workspace before has no influence.
	Place(dst, z []float64, w *Workspace) error
}

// ManyExtension is an extension that places some rows at a time, Together at most: rows and outputs stand side by side.
// What stands beside a row has no influence on its outputs.
type ManyExtension interface {
	Extension
	PlaceMany(dst, z []float64, n int, w *Workspace)
}

// Together is how many rows a [ManyExtension] places at a time.
const Together = tile.Together

// Array is a named float64 array, row-major.
type Array struct {
	Name  string
	Shape []int
	Data  []float64
}

// Kinds rebuilds a mapping from the arrays of a model file. The arrays
// are as the file has them: a rebuild checks names and shapes and keeps the data.
var Kinds = map[string]func(arrays []Array) (Map, error){
	"linear":      rebuildLinear,
	"views":       rebuildViews,
	"kernel":      rebuildKernelMap,
	"nystrom":     rebuildNystrom,
	"barycentric": rebuildBarycentric,
	"geodesic":    rebuildGeodesic,
	"tangent":     rebuildTangent,
	"similarity":  rebuildSimilarity,
	"sum":         rebuildSum,
}
