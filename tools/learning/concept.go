package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// The generated streams: the number of features, the number of directions in which classes differ, and the number of
// directions with strong noise and no information.
const (
	featureCount = 48
	classCount   = 8
	signalDims   = 10
	separation   = 1.1 // standard deviation of a class mean in one signal direction; the noise there has 1
	nuisanceDims = 8
	nuisance     = 3.0 // standard deviation of the noise in a nuisance direction
	// of a class mean that moves: it becomes 0.6 times itself and 0.8 times another, with the same distance
	stays = 0.6
)

// concept is a distribution of labelled rows: each class is normal about its own mean, with a common covariance.
type concept struct {
	shares []float64  // of the classes
	means  *mat.Dense // classes x m
	spread *mat.Dense // m x m: a row is its class's mean + spread z with z standard normal
}

// mapped returns the concept after a change of the features, x -> t x.
func (c *concept) mapped(t *mat.Dense) *concept {
	means, spread := new(mat.Dense), new(mat.Dense)
	means.Mul(c.means, t.T())
	spread.Mul(t, c.spread)
	return &concept{shares: c.shares, means: means, spread: spread}
}

// withShares returns the concept with other shares of the classes.
func (c *concept) withShares(shares []float64) *concept {
	return &concept{shares: shares, means: c.means, spread: c.spread}
}

// draw returns n rows with their true classes. Features are rounded to float32, as on the wire.
func (c *concept) draw(r *rand.Rand, n int) *model.Data {
	k, m := c.means.Dims()
	d := &model.Data{N: n, M: m, Classes: classNames(k), Y: make([]int, n)}
	z := mat.NewDense(n, m, nil)
	for i := range n {
		d.Y[i] = pick(r, c.shares)
		row := z.RawRowView(i)
		for j := range row {
			row[j] = r.NormFloat64()
		}
	}
	x := new(mat.Dense)
	x.Mul(z, c.spread.T())
	d.X = x.RawMatrix().Data
	for i, y := range d.Y {
		row, mean := d.X[i*m:(i+1)*m], c.means.RawRowView(y)
		for j := range row {
			row[j] = float64(float32(row[j] + mean[j]))
		}
	}
	return d
}

// pick draws a class by the shares.
func pick(r *rand.Rand, shares []float64) int {
	total := 0.0
	for _, s := range shares {
		total += s
	}
	at := r.Float64() * total
	for c, s := range shares {
		if at -= s; at < 0 {
			return c
		}
	}
	return slices.Index(shares, slices.Max(shares)) // rounding lost the last share
}

func classNames(n int) []string {
	names := make([]string, n)
	for c := range names {
		names[c] = "class " + strconv.Itoa(c)
	}
	return names
}

// world has what a seed draws: the first concept, and the concepts that can follow it.
type world struct {
	base    *concept
	rotated *concept // the features turned by a random rotation
	moved   *concept // the classes with other means
	scaled  *concept // one feature times 1000
	lacking *concept // without the last class
	rare    *concept // the last class once in 200 rows of another
	rareAnd *concept // that, rotated
	axes    *mat.Dense
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	signal, noise := rotation(r, featureCount), rotation(r, featureCount)
	places := func() *mat.Dense {
		at := mat.NewDense(classCount, featureCount, nil)
		for c := range classCount {
			for j := range signalDims {
				at.Set(c, j, separation*r.NormFloat64())
			}
		}
		means := new(mat.Dense)
		means.Mul(at, signal.T())
		return means
	}
	spread := mat.DenseCopyOf(noise)
	for i := range featureCount {
		for j := range nuisanceDims {
			spread.Set(i, j, nuisance*spread.At(i, j))
		}
	}
	even := slices.Repeat([]float64{1}, classCount)
	w := &world{base: &concept{shares: even, means: places(), spread: spread}}
	kept, moved := new(mat.Dense), places()
	kept.Scale(stays, w.base.means)
	moved.Scale(math.Sqrt(1-stays*stays), moved)
	moved.Add(moved, kept)
	w.moved = &concept{shares: even, means: moved, spread: spread}
	turn := rotation(r, featureCount)
	w.rotated = w.base.mapped(turn)
	w.scaled = w.base.mapped(stretch(featureCount, r.IntN(featureCount), 1000))
	lacking, rare := slices.Clone(even), slices.Clone(even)
	lacking[classCount-1], rare[classCount-1] = 0, 1./200
	w.lacking, w.rare = w.base.withShares(lacking), w.base.withShares(rare)
	w.rareAnd = w.rotated.withShares(rare)
	w.axes = rotation(r, featureCount)
	return w
}

// drifted is the first concept with its features turned by an angle in each of the planes that pairs of axes span.
func (w *world) drifted(angle float64) *concept {
	sin, cos := math.Sincos(angle)
	planes := mat.NewDense(featureCount, featureCount, nil)
	for j := 0; j < featureCount; j += 2 {
		planes.Set(j, j, cos)
		planes.Set(j+1, j+1, cos)
		planes.Set(j, j+1, -sin)
		planes.Set(j+1, j, sin)
	}
	turn := new(mat.Dense)
	turn.Product(w.axes, planes, w.axes.T())
	return w.base.mapped(turn)
}

// rotation is a random orthogonal matrix.
func rotation(r *rand.Rand, m int) *mat.Dense {
	g := mat.NewDense(m, m, nil)
	for i := range m {
		for j := range m {
			g.Set(i, j, r.NormFloat64())
		}
	}
	var qr mat.QR
	qr.Factorize(g)
	q := new(mat.Dense)
	qr.QTo(q)
	return q
}

// stretch multiplies one feature.
func stretch(m, feature int, by float64) *mat.Dense {
	t := mat.NewDense(m, m, nil)
	for j := range m {
		t.Set(j, j, 1)
	}
	t.Set(feature, feature, by)
	return t
}
