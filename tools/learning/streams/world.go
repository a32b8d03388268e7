package streams

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// The streams of normal classes: the number of directions in which classes differ, and of directions with strong noise
// and no information.
const (
	SignalDims   = 10
	NuisanceDims = 8
	Nuisance     = 3.0 // standard deviation of the noise in a nuisance direction
	// of a class mean that moves: it becomes 0.6 times itself and 0.8 times another, with the same distance
	stays = 0.6
)

// Shape is the size of a world.
type Shape struct {
	Features, Classes int
	// Separation is the standard deviation of a class mean in one signal direction; the noise there has 1.
	Separation float64
}

// Usual is the shape of the streams whose concept changes at once.
var Usual = Shape{Features: 48, Classes: 8, Separation: 1.1}

// Concept is a distribution of labelled rows: each class is normal about its own mean, with a common covariance. With
// a plane, features are even between 0 and 1 instead, and the side of the plane is the class.
type Concept struct {
	shares []float64  // of the classes
	means  *mat.Dense // classes x m
	spread *mat.Dense // m x m: a row is its class's mean + spread z with z standard normal
	plane  []float64  // its normal; it goes through the middle of the cube
}

// mapped returns the concept after a change of the features, x -> t x.
func (c *Concept) mapped(t *mat.Dense) *Concept {
	means, spread := new(mat.Dense), new(mat.Dense)
	means.Mul(c.means, t.T())
	spread.Mul(t, c.spread)
	return &Concept{shares: c.shares, means: means, spread: spread}
}

// withShares returns the concept with other shares of the classes.
func (c *Concept) withShares(shares []float64) *Concept {
	return &Concept{shares: shares, means: c.means, spread: c.spread, plane: c.plane}
}

// process draws the classes and the noise of consecutive rows.
type process interface {
	class(r *rand.Rand, shares []float64) int
	noise(r *rand.Rand, z []float64)
}

// independent draws each row without regard to others.
type independent struct{}

func (independent) class(r *rand.Rand, shares []float64) int { return pick(r, shares) }

func (independent) noise(r *rand.Rand, z []float64) {
	for j := range z {
		z[j] = r.NormFloat64()
	}
}

// Draw returns n independent rows with their true classes.
func (c *Concept) Draw(r *rand.Rand, n int) *model.Data { return c.draw(r, n, independent{}) }

// draw returns n rows of a process. Features are rounded to float32, as on the wire.
func (c *Concept) draw(r *rand.Rand, n int, p process) *model.Data {
	if c.plane != nil {
		return c.drawSides(r, n, p)
	}
	k, m := c.means.Dims()
	d := &model.Data{N: n, M: m, Classes: classNames(k), Y: make([]int, n)}
	z := mat.NewDense(n, m, nil)
	for i := range n {
		d.Y[i] = p.class(r, c.shares)
		p.noise(r, z.RawRowView(i))
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

// drawSides returns rows of a cube, each on the side of the plane that its class names.
func (c *Concept) drawSides(r *rand.Rand, n int, p process) *model.Data {
	m := len(c.plane)
	d := &model.Data{N: n, M: m, Classes: classNames(2), Y: make([]int, n), X: make([]float64, n*m)}
	for i := range n {
		d.Y[i] = p.class(r, c.shares)
		row := d.X[i*m : (i+1)*m]
		for side := -1; side != d.Y[i]; {
			at := 0.0
			for j := range row {
				row[j] = float64(float32(r.Float64()))
				at += c.plane[j] * (row[j] - 0.5)
			}
			side = 0
			if at > 0 {
				side = 1
			}
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

// World has what a seed draws: the first concept, and the concepts that can follow it.
type World struct {
	Base    *Concept
	Rotated *Concept // the features turned by a random rotation
	moved   *Concept // the classes with other means
	scaled  *Concept // one feature times 1000
	lacking *Concept // without the last class
	rare    *Concept // the last class once in 200 rows of another
	rareAnd *Concept // that, rotated
	rarest  *Concept // the last class once in 1,000 rows
	axes    *mat.Dense
	even    []float64
}

// NewWorld draws a world.
func NewWorld(seed uint64, s Shape) *World {
	r := rand.New(rand.NewPCG(seed, 1))
	signal, noise := rotation(r, s.Features), rotation(r, s.Features)
	places := func() *mat.Dense {
		at := mat.NewDense(s.Classes, s.Features, nil)
		for c := range s.Classes {
			for j := range min(SignalDims, s.Features) {
				at.Set(c, j, s.Separation*r.NormFloat64())
			}
		}
		means := new(mat.Dense)
		means.Mul(at, signal.T())
		return means
	}
	spread := mat.DenseCopyOf(noise)
	for i := range s.Features {
		for j := range min(NuisanceDims, s.Features) {
			spread.Set(i, j, Nuisance*spread.At(i, j))
		}
	}
	even := slices.Repeat([]float64{1}, s.Classes)
	w := &World{Base: &Concept{shares: even, means: places(), spread: spread}, even: even}
	kept, moved := new(mat.Dense), places()
	kept.Scale(stays, w.Base.means)
	moved.Scale(math.Sqrt(1-stays*stays), moved)
	moved.Add(moved, kept)
	w.moved = &Concept{shares: even, means: moved, spread: spread}
	turn := rotation(r, s.Features)
	w.Rotated = w.Base.mapped(turn)
	w.scaled = w.Base.mapped(stretch(s.Features, r.IntN(s.Features), 1000))
	w.lacking, w.rare = w.lastTimes(0), w.lastTimes(1./200)
	w.rareAnd = w.Rotated.withShares(w.rare.shares)
	w.rarest = w.lastTimes(float64(s.Classes-1) / 999)
	w.axes = rotation(r, s.Features)
	return w
}

// lastTimes is the first concept with another share of the last class, relative to that of each other.
func (w *World) lastTimes(share float64) *Concept {
	shares := slices.Clone(w.even)
	shares[len(shares)-1] = share
	return w.Base.withShares(shares)
}

// first is the first concept with its first classes only.
func (w *World) first(classes int) *Concept {
	shares := slices.Clone(w.even)
	clear(shares[min(classes, len(shares)):])
	return w.Base.withShares(shares)
}

// offset is the first concept with all rows moved along an axis.
func (w *World) offset(axis int) *Concept {
	k, m := w.Base.means.Dims()
	means := mat.NewDense(k, m, nil)
	means.Apply(func(_, j int, v float64) float64 { return v + 2*Nuisance*w.axes.At(j, axis) }, w.Base.means)
	return &Concept{shares: w.Base.shares, means: means, spread: w.Base.spread}
}

// drifted is the first concept with its features turned by an angle in each of the planes that pairs of axes span.
func (w *World) drifted(angle float64) *Concept {
	sin, cos := math.Sincos(angle)
	m, _ := w.axes.Dims()
	planes := mat.NewDense(m, m, nil)
	for j := 0; j < m; j += 2 {
		planes.Set(j, j, cos)
		planes.Set(j+1, j+1, cos)
		planes.Set(j, j+1, -sin)
		planes.Set(j+1, j, sin)
	}
	turn := new(mat.Dense)
	turn.Product(w.axes, planes, w.axes.T())
	return w.Base.mapped(turn)
}

// direction is a unit vector that turns in the plane of the first two axes.
func (w *World) direction(angle float64) []float64 {
	sin, cos := math.Sincos(angle)
	m, _ := w.axes.Dims()
	u := make([]float64, m)
	for j := range u {
		u[j] = cos*w.axes.At(j, 0) + sin*w.axes.At(j, 1)
	}
	return u
}

// turned has two classes, which differ in one direction that turns.
func (w *World) turned(angle, apart float64) *Concept {
	u := w.direction(angle)
	means := mat.NewDense(2, len(u), nil)
	for j, v := range u {
		means.Set(0, j, -apart/2*v)
		means.Set(1, j, apart/2*v)
	}
	return &Concept{shares: []float64{1, 1}, means: means, spread: stretch(len(u), 0, 1)}
}

// sides has the two sides of a plane as classes. The plane turns.
func (w *World) sides(angle float64) *Concept {
	return &Concept{shares: []float64{1, 1}, plane: w.direction(angle)}
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
