package streams

import (
	"math"
	"math/rand/v2"

	"github.com/embedd/embedd/model"
)

// NoLabel is the class of a row without a label.
const NoLabel = -1

// Source returns the rows of one stream.
type Source interface {
	Rows() int
	// Next returns the next message, with the labels that the learner gets. A class may be NoLabel, a feature NaN.
	Next() *model.Data
	// IsSame reports whether two rows have the same concept.
	IsSame(a, b int) bool
	// Fresh returns independent rows of the concept at a row of the stream, with true classes: references and queries.
	// They are never in the stream.
	Fresh(r *rand.Rand, at, refs, queries int) (ref, query *model.Data)
}

// generatedStream is a stream of the concepts of a world.
type generatedStream struct {
	stream Stream
	world  *World
	total  int
	at     int // rows returned so far
	random *rand.Rand
	rows   process
}

func (g *generatedStream) Rows() int { return g.total }

func (g *generatedStream) concept(at int) *Concept { return g.stream.concept(g.world, at, g.total) }

func (g *generatedStream) IsSame(a, b int) bool { return g.concept(a) == g.concept(b) }

func (g *generatedStream) Next() *model.Data {
	d := g.concept(g.at).draw(g.random, BatchRows, g.rows)
	if copies := g.stream.order.copies; copies > 1 {
		repeat(d, copies)
	}
	if g.stream.IsPoisoned(float64(g.at) / float64(g.total)) {
		g.random.Shuffle(d.N, func(i, j int) { d.Y[i], d.Y[j] = d.Y[j], d.Y[i] })
	}
	classes := len(d.Classes)
	for i := range d.Y {
		if g.random.Float64() < g.stream.Noise {
			d.Y[i] = (d.Y[i] + 1 + g.random.IntN(classes-1)) % classes
		}
	}
	g.withhold(d)
	g.at += d.N
	return d
}

// withhold removes labels and features.
func (g *generatedStream) withhold(d *model.Data) {
	if g.stream.Labelled > 0 {
		for i := range d.Y {
			if g.random.Float64() >= g.stream.Labelled {
				d.Y[i] = NoLabel
			}
		}
	}
	if g.stream.Missing > 0 {
		for i := range d.N {
			if g.random.Float64() >= g.stream.Missing {
				continue
			}
			d.X[i*d.M+g.random.IntN(d.M)] = math.NaN()
			for range d.M/10 - 1 {
				d.X[i*d.M+g.random.IntN(d.M)] = math.NaN()
			}
		}
	}
}

// repeat has each row that many times in a row; the last rows make room.
func repeat(d *model.Data, copies int) {
	for i := d.N - 1; i >= 0; i-- {
		from := i / copies
		copy(d.X[i*d.M:(i+1)*d.M], d.X[from*d.M:(from+1)*d.M])
		d.Y[i] = d.Y[from]
	}
}

func (g *generatedStream) Fresh(r *rand.Rand, at, refs, queries int) (ref, query *model.Data) {
	c := g.concept(at)
	if g.stream.fresh != nil {
		c = g.stream.fresh(g.world, at, g.total)
	}
	return c.draw(r, refs, g.stream.order.fresh()), c.draw(r, queries, g.stream.order.fresh())
}
