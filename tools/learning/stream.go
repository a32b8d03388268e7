package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/embedd/embedd/model"
)

const (
	usualRows  = 40_000
	usualSeeds = 3
	batchRows  = 250 // rows of a message; events and checkpoints are at the borders of messages
)

// event is a change of the concept, by its places in the stream, from 0 to 1. A change at once ends where it starts.
type event struct {
	start, end float64
	settle     int // rows after its end from which on the learner is held to have recovered
}

// stream is one kind of stream.
type stream struct {
	name, title, about string
	events             []event
	concept            func(w *world, place float64) *concept
	poison             event   // labels are shuffled from start to end
	noise              float64 // share of labels that name another class
	slack              float64 // maximum difference from the oracle in the 5,000 rows after an event, in points
	real               bool    // rows of usps instead of generated ones
}

const (
	usualSlack = 6
	noiseSlack = 8
)

func atHalf(settle int) []event { return []event{{start: 0.5, end: 0.5, settle: settle}} }

const (
	soon  = 3500
	later = 5000 // rotations
)

// after returns a function that switches from one concept to the other at half of the stream.
func after(before, then func(*world) *concept) func(*world, float64) *concept {
	return func(w *world, place float64) *concept {
		if place < 0.5 {
			return before(w)
		}
		return then(w)
	}
}

func base(w *world) *concept    { return w.base }
func rotated(w *world) *concept { return w.rotated }
func moved(w *world) *concept   { return w.moved }
func scaled(w *world) *concept  { return w.scaled }
func lacking(w *world) *concept { return w.lacking }
func rare(w *world) *concept    { return w.rare }
func rareAnd(w *world) *concept { return w.rareAnd }

var streams = []stream{
	{name: "stationary", title: "Stationary", about: "nothing happens", concept: after(base, base)},
	{name: "rotation", title: "Rotation", about: "all features turned by a random rotation at half",
		events: atHalf(later), concept: after(base, rotated), slack: usualSlack},
	{name: "means", title: "Class means move",
		about:  "at half each becomes 0.6 times itself and 0.8 times another, in the directions in which classes differ",
		events: atHalf(soon), concept: after(base, moved), slack: usualSlack},
	{name: "scale", title: "One feature times 1000", about: "at half", events: atHalf(soon),
		concept: after(base, scaled), slack: usualSlack},
	{name: "gradual", title: "Gradual drift",
		about:  "the features turn by a right angle in 24 planes, evenly from a quarter to three quarters of the stream",
		events: []event{{start: 0.25, end: 0.75, settle: later}},
		concept: func(w *world, place float64) *concept {
			return w.drifted(math.Pi / 2 * min(max(2*(place-0.25), 0), 1))
		}, slack: usualSlack},
	{name: "appears", title: "A class appears", about: "seven classes, the eighth from half on", events: atHalf(soon),
		concept: after(lacking, base), slack: usualSlack},
	{name: "vanishes", title: "A class vanishes", about: "eight classes, seven from half on", events: atHalf(soon),
		concept: after(base, lacking), slack: usualSlack},
	{name: "imbalance", title: "1:200", about: "one class has a 200th of the rows of each other; a rotation at half",
		events: atHalf(later), concept: after(rare, rareAnd), slack: usualSlack},
	{name: "noise", title: "Label noise", about: "a tenth of the labels name another class; a rotation at half",
		events: atHalf(later), concept: after(base, rotated), noise: 0.1, slack: noiseSlack},
	{name: "recurring", title: "Recurring concepts", about: "A B A B, a quarter of the stream each; B is A rotated",
		events: []event{{0.25, 0.25, later}, {0.5, 0.5, later}, {0.75, 0.75, later}},
		concept: func(w *world, place float64) *concept {
			if quarter := min(int(4*place), 3); quarter%2 == 0 {
				return w.base
			}
			return w.rotated
		}, slack: usualSlack},
	{name: "poison6", title: "Poison, 6,000 rows", about: "labels shuffled for 6,000 rows from half on",
		concept: after(base, base), poison: event{start: 0.5, end: 0.65, settle: soon}},
	{name: "poison20", title: "Poison, 20,000 rows", about: "labels shuffled for 20,000 rows from three eighths on",
		concept: after(base, base), poison: event{start: 0.375, end: 0.875, settle: soon}},
	{name: "usps", title: "USPS",
		about: "real: 7,000 handwritten digits of 16 x 16 pixels, then the same turned by a quarter; fresh rows are " +
			"of 2,298 others",
		events: atHalf(later), slack: usualSlack, real: true},
}

// chosen returns the streams with these names, all if there are none.
func chosen(names string) ([]stream, error) {
	if names == "" {
		return streams, nil
	}
	var some []stream
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(streams, func(s stream) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no stream %q; there are %s", name, strings.Join(streamNames(), ", "))
		}
		some = append(some, streams[i])
	}
	return some, nil
}

func streamNames() []string {
	var names []string
	for _, s := range streams {
		names = append(names, s.name)
	}
	return names
}

// poisoned reports whether the labels at a position are shuffled.
func (s stream) poisoned(place float64) bool { return s.poison.start <= place && place < s.poison.end }

// changes returns the events, poison included. For a stationary stream it is a quarter of the stream, after which a
// learner has nothing to gain.
func (s stream) changes() []event {
	switch {
	case s.poison.end > 0:
		return []event{s.poison}
	case len(s.events) == 0:
		return []event{{start: 0.25, end: 0.25, settle: soon}}
	}
	return s.events
}

// rowOf returns the row at a share of a stream, rounded to the border of a message.
func rowOf(place float64, rows int) int {
	return int(math.Round(place*float64(rows)/batchRows)) * batchRows
}

// source returns the rows of one stream.
type source interface {
	rows() int
	// next returns the next message, with the labels that the learner gets.
	next() *model.Data
	// same reports whether two rows have the same concept.
	same(a, b int) bool
	// fresh returns rows of the concept at a row of the stream, with true classes: references and queries. They are never
	// in the stream.
	fresh(r *rand.Rand, at, refs, queries int) (ref, query *model.Data)
}

// open starts a stream with a maximum number of rows.
func (s stream) open(rows int, seed uint64) (source, error) {
	if s.real {
		return openDigits(s, rows, seed)
	}
	return &generated{stream: s, world: newWorld(seed), total: rows, random: rand.New(rand.NewPCG(seed, 2))}, nil
}

// generated is a stream of the concepts of a world.
type generated struct {
	stream stream
	world  *world
	total  int
	at     int // rows returned so far
	random *rand.Rand
}

func (g *generated) rows() int { return g.total }

func (g *generated) concept(at int) *concept {
	return g.stream.concept(g.world, float64(at)/float64(g.total))
}

func (g *generated) same(a, b int) bool { return g.concept(a) == g.concept(b) }

func (g *generated) next() *model.Data {
	d := g.concept(g.at).draw(g.random, batchRows)
	if g.stream.poisoned(float64(g.at) / float64(g.total)) {
		g.random.Shuffle(d.N, func(i, j int) { d.Y[i], d.Y[j] = d.Y[j], d.Y[i] })
	}
	for i := range d.Y {
		if g.random.Float64() < g.stream.noise {
			d.Y[i] = (d.Y[i] + 1 + g.random.IntN(classCount-1)) % classCount
		}
	}
	g.at += d.N
	return d
}

func (g *generated) fresh(r *rand.Rand, at, refs, queries int) (ref, query *model.Data) {
	c := g.concept(at)
	return c.draw(r, refs), c.draw(r, queries)
}
