package tangent

import (
	"github.com/embedd/embedd/model/graph"
)

// Spaces are the tangent spaces of a manifold: one for each patch of rows, or for each row.
type Spaces struct {
	Patch  []int            // patch of each row
	Spaces []*graph.Tangent // T_p of each patch, m x m_p with orthonormal columns; m_p may be 0
}

// PatchOf is the patch of each of n rows.
func PatchOf(patches [][]int, n int) []int {
	of := make([]int, n)
	for p, rows := range patches {
		for _, r := range rows {
			of[r] = p
		}
	}
	return of
}
