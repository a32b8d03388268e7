package graph

import (
	"fmt"
	"iter"

	"gonum.org/v1/gonum/mat"
)

// Patch is a sample with the rows of its part of an objective: the part of an embedding Y is tr(Y_F' L Y_F), Y_F its
// rows (Zhang, Tao, Li and Yang 2009, patch alignment).
type Patch struct {
	Rows []int
	L    mat.Symmetric // of order len(Rows)
}

func (p Patch) check(n int) error {
	if p.L == nil {
		return fmt.Errorf("patch alignment: a patch of %d rows has no part matrix", len(p.Rows))
	}
	if k := p.L.SymmetricDim(); k != len(p.Rows) {
		return fmt.Errorf("patch alignment: %d rows with a part matrix of order %d", len(p.Rows), k)
	}
	for _, i := range p.Rows {
		if i < 0 || i >= n {
			return fmt.Errorf("patch alignment: a patch holds row %d of %d", i, n)
		}
	}
	return nil
}

// Align is the alignment matrix of all patches, sparse n x n: the sum of S_i L_i S_i', S_i the selection of the rows
// of patch i. It is the matrix of a nonlinear method, and WeightForm makes that of the linear method from it.
func Align(n int, patches iter.Seq[Patch]) (*Matrix, error) {
	if n < 0 || patches == nil {
		return nil, fmt.Errorf("patch alignment: no patches, or %d rows", n)
	}
	var entries []entry
	for p := range patches {
		if err := p.check(n); err != nil {
			return nil, err
		}
		for a, i := range p.Rows {
			for b := a; b < len(p.Rows); b++ {
				v := p.L.At(a, b)
				if a != b && i == p.Rows[b] {
					v *= 2 // a row that is twice in a patch: both triangles fall on the diagonal
				}
				entries = append(entries, entry{int32(i), int32(p.Rows[b]), v})
			}
		}
	}
	return assemble(n, entries), nil
}

// TangentPart is the part that no affine map of the tangent coordinates explains (local tangent space alignment): I -
// [1/sqrt(k), V][1/sqrt(k), V]'.
func TangentPart(t *Tangent) *mat.SymDense {
	k, d := len(t.Rows), t.Dim()
	l := mat.NewSymDense(k, nil)
	raw := l.RawSymmetric()
	for i := range k {
		row := raw.Data[i*raw.Stride:][:k]
		for j := i; j < k; j++ {
			v := -1 / float64(k)
			if i == j {
				v++
			}
			if d > 0 {
				other := t.Coordinates.RawRowView(j)
				for c, w := range t.Coordinates.RawRowView(i) {
					v -= w * other[c]
				}
			}
			row[j] = v
		}
	}
	return l
}

// Patches are row i followed by its list, for each i.
func (nb *Neighbors) Patches() [][]int {
	out := make([][]int, nb.Len())
	for i := range out {
		index, _ := nb.Row(i)
		out[i] = append([]int{i}, index...)
	}
	return out
}
