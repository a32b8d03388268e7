package mapping

import (
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// Gauss is the kernel gauss with given rows, in tables for comparing several rows with them at once. Models of the
// same rows share it.
type Gauss struct {
	n, m   int
	rows   []float64
	param  float64
	norms  []float64 // squared
	packed *tile.Table
}

// NewGauss makes the tables of the rows, n x m.
func NewGauss(rows []float64, m int, param float64) *Gauss {
	n := len(rows) / m
	g := &Gauss{n: n, m: m, rows: rows, param: param, norms: make([]float64, n), packed: tile.NewTable(rows, n, m, m, 1)}
	for i := range g.norms {
		g.norms[i] = linalg.Dot(g.row(i), g.row(i))
	}
	return g
}

func (g *Gauss) row(i int) []float64 { return g.rows[i*g.m : (i+1)*g.m] }

// of reports whether the tables are those of this kernel and these rows.
func (g *Gauss) of(rows []float64, param float64) bool {
	return g != nil && len(g.rows) == len(rows) && &g.rows[0] == &rows[0] && g.param == param
}

// minExact is the size of two rows, in bandwidths, from which their distance is computed directly: taken from their
// dot product, it would lose too many digits.
const minExact = 1e6

// kernels writes k(z_j, row i) to dst[i*tile.Together+j], for n rows z, at most tile.Together. across is scratch for
// as many, m numbers each.
func (g *Gauss) kernels(dst, z, across []float64, n int) {
	var sizes [tile.Together]float64
	for l := range g.m {
		clear(across[l*tile.Together : (l+1)*tile.Together])
	}
	for j := range n {
		row := z[j*g.m : (j+1)*g.m]
		for l, v := range row {
			across[l*tile.Together+j] = v
		}
		sizes[j] = linalg.Dot(row, row)
	}
	g.packed.Times(dst, across)
	far, rate := minExact*g.param, -1/g.param
	for i, norm := range g.norms {
		products := (*[tile.Together]float64)(dst[i*tile.Together:])
		for j, size := range sizes {
			products[j] = max(size+norm-2*products[j], 0) * rate
			if !(size+norm < far) && j < n {
				products[j] = linalg.SquaredDistance(z[j*g.m:(j+1)*g.m], g.row(i)) * rate
			}
		}
	}
	tile.Exp(dst[:g.n*tile.Together])
}

// room is how many numbers kernels writes.
func (g *Gauss) room() int { return g.packed.Rows() * tile.Together }

// gaussExtension is a KernelMap of such kernels.
type gaussExtension struct {
	*KernelMap
	g       *Gauss
	weights *tile.Table
}

func newGaussExtension(k *KernelMap, m int) *gaussExtension {
	g := k.Tables
	if !g.of(k.Rows, k.K.Param[0]) {
		g = NewGauss(k.Rows, m, k.K.Param[0])
	}
	return &gaussExtension{k, g, tile.NewTable(k.Coefficients, k.D, g.n, 1, k.D)}
}

func (e *gaussExtension) Cost() int { return e.g.n }

func (e *gaussExtension) Workspace() *Workspace {
	return &Workspace{many: make([]float64, e.g.m*tile.Together+e.g.room()+e.weights.Rows()*tile.Together)}
}

// Project is ProjectMany of one row.
func (e *gaussExtension) Project(dst, z []float64, w *Workspace) error {
	e.ProjectMany(dst, z, 1, w)
	return nil
}

// ProjectMany writes the outputs of n rows, tile.Together at most, side by side.
func (e *gaussExtension) ProjectMany(dst, z []float64, n int, w *Workspace) {
	across := w.many[:e.g.m*tile.Together]
	values := w.many[len(across):][:e.g.room()]
	out := w.many[len(across)+len(values):]
	e.g.kernels(values, z, across, n)
	e.weights.Times(out, values)
	for j := range n {
		for c := range e.D {
			v := out[c*tile.Together+j]
			if e.Offset != nil {
				v += e.Offset[c]
			}
			dst[j*e.D+c] = v
		}
	}
}
