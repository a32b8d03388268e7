package mapping

import (
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/tile"
)

// Gauss is the kernel gauss with given rows, in tables for comparing several rows with them at once. Models of the
// same rows share it.
type Gauss struct {
	n, m  int
	rows  []float64
	param float64
	rate  float64   // of the exponent
	norms []float64 // squared, and zeros up to a multiple of tile.Lanes
	// largest is that of norms.
	largest float64
	// basis is of the subspace that the rows are in, orthonormal; nil: they are in none that is worth a product with it.
	basis  *tile.Table
	packed *tile.Table // of the rows, in the coordinates of basis
}

// NewGauss makes the tables of the rows, n x m.
func NewGauss(rows []float64, m int, param float64) *Gauss {
	n := len(rows) / m
	g := &Gauss{n: n, m: m, rows: rows, param: param, rate: -1 / param}
	if basis := subspace(rows, m); basis != nil {
		r := len(basis) / m
		g.basis = tile.NewTable(basis, r, m, m, 1)
		g.packed = tile.NewTable(coordinates(rows, m, g.basis), n, r, r, 1)
	} else {
		g.packed = tile.NewTable(rows, n, m, m, 1)
	}
	g.norms = make([]float64, (n+tile.Lanes-1)/tile.Lanes*tile.Lanes)
	for i := range n {
		g.norms[i] = linalg.Dot(g.row(i), g.row(i))
		g.largest = max(g.largest, g.norms[i])
	}
	return g
}

func (g *Gauss) row(i int) []float64 { return g.rows[i*g.m : (i+1)*g.m] }

// of reports whether the tables are those of this kernel and these rows.
func (g *Gauss) of(rows []float64, param float64) bool {
	return g != nil && len(g.rows) == len(rows) && &g.rows[0] == &rows[0] && g.param == param
}

// MinExact is the size of two rows, in bandwidths, from which their distance is computed directly: taken from their
// dot product, it would lose too many digits.
const MinExact = 1e6

// kernels writes k(z_j, row i) to dst[i*tile.Together+j], for n rows z, at most tile.Together. across is scratch for
// as many.
func (g *Gauss) kernels(dst, z, across []float64, n int) {
	var sizes [tile.Together]float64
	spread(across, z, g.m, n)
	largest := 0.0
	for j := range n {
		row := z[j*g.m : (j+1)*g.m]
		sizes[j] = linalg.Dot(row, row)
		largest = max(largest, sizes[j])
	}
	if side := across; g.basis != nil {
		across = across[g.m*tile.Together:]
		g.basis.Times(across, side)
	}
	g.packed.Times(dst, across)
	for i, norm := range g.norms[:g.n] {
		tile.Distances(dst[i*tile.Together:][:tile.Together], sizes[:], norm, g.rate)
	}
	for j := 0; j < n && !g.near(largest); j++ {
		g.measure(dst[j:], z[j*g.m:(j+1)*g.m], sizes[j], tile.Together)
	}
	tile.Exp(dst[:g.n*tile.Together])
}

// spread puts n rows of m numbers side by side, with zeros in the place of missing ones.
func spread(across, z []float64, m, n int) {
	if n < tile.Together {
		clear(across[:m*tile.Together])
	}
	j := 0
	for ; j+8 <= n; j += 8 { // a line of the cache
		var row [8][]float64
		for i := range row {
			row[i] = z[(j+i)*m:][:m]
		}
		r0, r1, r2, r3, r4, r5, r6, r7 := row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]
		for l, v := range r0 {
			to := (*[8]float64)(across[l*tile.Together+j:])
			to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7] = v, r1[l], r2[l], r3[l], r4[l], r5[l], r6[l], r7[l]
		}
	}
	for ; j < n; j++ {
		for l, v := range z[j*m : (j+1)*m] {
			across[l*tile.Together+j] = v
		}
	}
}

// kernelsOf writes k(z, row i) to dst[i], with the same bits as kernels.
func (g *Gauss) kernelsOf(dst, z, across []float64) {
	size, whole := linalg.Dot(z, z), len(g.norms)
	at := z
	if g.basis != nil {
		g.basis.Row(across, z)
		at = across
	}
	g.packed.Row(dst, at)
	tile.Distances(dst[:whole], g.norms, size, g.rate)
	if !g.near(size) {
		g.measure(dst, z, size, 1)
	}
	tile.Exp(dst[:whole])
}

// near reports whether no row is too far from one of this size for their dot product.
func (g *Gauss) near(size float64) bool { return size+g.largest < MinExact*g.param }

// measure computes directly the distances of z from the rows for which the dot product would lose too many digits.
// Those of row i are at dst[i*stride].
func (g *Gauss) measure(dst, z []float64, size float64, stride int) {
	for i, norm := range g.norms[:g.n] {
		if !(size+norm < MinExact*g.param) {
			dst[i*stride] = linalg.SquaredDistance(z, g.row(i)) * g.rate
		}
	}
}

// room is how many numbers kernels writes, and scratch how many it needs.
func (g *Gauss) room() int { return g.packed.Rows() * tile.Together }

func (g *Gauss) scratch() int {
	if g.basis == nil {
		return g.m * tile.Together
	}
	return (g.m + g.basis.Rows()) * tile.Together
}

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

func (e *gaussExtension) AtOnce() int { return Together }

func (e *gaussExtension) Workspace() *Workspace {
	sideBySide := e.g.room() + e.weights.Rows()*tile.Together
	alone := e.g.packed.Width() + e.weights.Width()
	return &Workspace{many: make([]float64, max(sideBySide, alone)), Row: make([]float64, e.g.scratch())}
}

// maxAlone is the number of rows up to which it is faster to project each alone than all side by side.
const maxAlone = 12

func (e *gaussExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	if n > maxAlone {
		e.sideBySide(dst, z, n, w)
		return n, nil
	}
	values, out := w.many[:e.g.packed.Width()], w.many[e.g.packed.Width():]
	for j := range n {
		e.g.kernelsOf(values, z[j*e.g.m:(j+1)*e.g.m], w.Row)
		e.weights.Row(out, values[:e.g.n])
		e.put(dst[j*e.D:(j+1)*e.D], out, 1)
	}
	return n, nil
}

func (e *gaussExtension) sideBySide(dst, z []float64, n int, w *Workspace) {
	values, out := w.many[:e.g.room()], w.many[e.g.room():]
	e.g.kernels(values, z, w.Row, n)
	e.weights.Times(out, values)
	for j := range n {
		e.put(dst[j*e.D:(j+1)*e.D], out[j:], tile.Together)
	}
}

// put adds the offset, or 0 so that no output is -0, to sums that are stride apart.
func (e *gaussExtension) put(dst, sums []float64, stride int) {
	for c := range dst {
		dst[c] = sums[c*stride] + 0
		if e.Offset != nil {
			dst[c] += e.Offset[c]
		}
	}
}
