package streams

import (
	"math"
	"math/rand/v2"
	"slices"
)

// order is how the rows of a stream depend on each other. The zero value is independent rows.
type order struct {
	run    int     // rows of one class in a row; all classes have a run before one has a second
	mean   int     // mean number of rows of one class in a row, of geometric distribution
	ar     float64 // autocorrelation of the noise within a run
	copies int     // of each row
	tails  bool    // the noise has Student's distribution with two degrees of freedom
}

// begin returns the process of a stream.
func (o order) begin() process {
	switch {
	case o.run > 0:
		return &inRuns{order: o, now: NoLabel}
	case o.mean > 0:
		return &markov{mean: o.mean, now: NoLabel}
	}
	return o.fresh()
}

// fresh is the process of independent rows with the distribution of the stream's.
func (o order) fresh() process {
	if o.tails {
		return studentNoise{}
	}
	return independent{}
}

// studentNoise draws noise of Student's distribution with two degrees of freedom.
type studentNoise struct{ independent }

func (p studentNoise) noise(r *rand.Rand, z []float64) {
	p.independent.noise(r, z)
	for j := range z {
		z[j] /= math.Sqrt(r.ExpFloat64()) // half of a chi squared number of two degrees
	}
}

// inRuns draws runs of one class of the same length.
type inRuns struct {
	independent
	order
	queue []int // classes of the next runs
	now   int
	left  int       // rows of the run
	z     []float64 // noise of the row before; nil at the start of a run
}

func (p *inRuns) class(r *rand.Rand, shares []float64) int {
	if p.left == 0 {
		if len(p.queue) == 0 {
			p.queue = r.Perm(len(shares))
			p.queue = slices.DeleteFunc(p.queue, func(c int) bool { return shares[c] == 0 })
			if last := len(p.queue) - 1; p.queue[0] == p.now && last > 0 {
				p.queue[0], p.queue[last] = p.queue[last], p.queue[0]
			}
		}
		p.now, p.queue, p.left, p.z = p.queue[0], p.queue[1:], p.run, nil
	}
	p.left--
	return p.now
}

func (p *inRuns) noise(r *rand.Rand, z []float64) {
	p.independent.noise(r, z)
	if p.ar == 0 {
		return
	}
	if p.z != nil {
		rest := math.Sqrt(1 - p.ar*p.ar)
		for j := range z {
			z[j] = p.ar*p.z[j] + rest*z[j]
		}
	}
	p.z = slices.Clone(z)
}

// markov draws labels that stay the same with a probability.
type markov struct {
	independent
	mean, now int
}

func (p *markov) class(r *rand.Rand, shares []float64) int {
	if p.now == NoLabel || r.Float64() < 1/float64(p.mean) {
		others := slices.Clone(shares)
		if p.now != NoLabel {
			others[p.now] = 0
		}
		p.now = pick(r, others)
	}
	return p.now
}
