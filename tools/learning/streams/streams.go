// Package streams generates labelled rows in the orders in which real streams have them: independent rows whose concept
// changes, runs of one class, autocorrelated noise, copies, files sorted by their label, rare classes, wrong labels,
// steady drift, late labels and few labels. A stream is a function of its seed.
package streams

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	UsualRows = 40_000
	BatchRows = 250 // rows of a message; events are at the borders of messages
)

// Event is a change of the concept, by its places in the stream, from 0 to 1. A change at once ends where it starts.
type Event struct{ Start, End float64 }

// Stream is one kind of stream.
type Stream struct {
	Name, Title, About string
	Rows               int // usual number; 0: UsualRows
	Shape              Shape
	Events             []Event
	Poison             Event   // labels are shuffled from start to end
	Noise              float64 // share of labels that name another class
	Labelled           float64 // share of rows with a label; 0: all
	Missing            float64 // share of rows with missing features, a tenth of their features each
	// Delay is the number of rows between a row and its label, if labels arrive in separate messages; 0: they do not. It
	// grows by Slower for each row. Reversed labels arrive after all rows, the newest first.
	Delay    int
	Slower   float64
	Reversed bool

	concept func(w *World, row, rows int) *Concept
	order   order
	fresh   func(w *World, row, rows int) *Concept // nil: concept
	real    *dataset                               // rows of a file instead of generated ones
	sorted  bool                                   // by class
}

// HasLateLabels reports whether labels arrive in separate messages.
func (s Stream) HasLateLabels() bool { return s.Delay > 0 || s.Reversed }

// IsDependent reports whether the stream is one of Dependent.
func (s Stream) IsDependent() bool {
	return slices.ContainsFunc(Dependent, func(o Stream) bool { return o.Name == s.Name })
}

// at returns the concept of a row at a place of the stream.
func at(concept func(w *World, place float64) *Concept) func(*World, int, int) *Concept {
	return func(w *World, row, rows int) *Concept { return concept(w, float64(row)/float64(rows)) }
}

// after returns a function that switches from one concept to the other at half of the stream.
func after(before, then func(*World) *Concept) func(*World, int, int) *Concept {
	return at(func(w *World, place float64) *Concept {
		if place < 0.5 {
			return before(w)
		}
		return then(w)
	})
}

func base(w *World) *Concept    { return w.Base }
func rotated(w *World) *Concept { return w.Rotated }
func moved(w *World) *Concept   { return w.moved }
func scaled(w *World) *Concept  { return w.scaled }
func lacking(w *World) *Concept { return w.lacking }
func rare(w *World) *Concept    { return w.rare }
func rareAnd(w *World) *Concept { return w.rareAnd }
func rarest(w *World) *Concept  { return w.rarest }

var half = []Event{{0.5, 0.5}}

// Abrupt are the streams of independent rows, most of them with a change at once.
var Abrupt = []Stream{
	{Name: "stationary", Title: "Stationary", About: "nothing happens", concept: after(base, base)},
	{Name: "rotation", Title: "Rotation", About: "all features turned by a random rotation at half",
		Events: half, concept: after(base, rotated)},
	{Name: "means", Title: "Class means move",
		About:  "at half each becomes 0.6 times itself and 0.8 times another, in the directions in which classes differ",
		Events: half, concept: after(base, moved)},
	{Name: "scale", Title: "One feature times 1000", About: "at half", Events: half, concept: after(base, scaled)},
	{Name: "gradual", Title: "Gradual drift",
		About:  "the features turn by a right angle in 24 planes, evenly from a quarter to three quarters of the stream",
		Events: []Event{{0.25, 0.75}},
		concept: at(func(w *World, place float64) *Concept {
			return w.drifted(math.Pi / 2 * min(max(2*(place-0.25), 0), 1))
		})},
	{Name: "appears", Title: "A class appears", About: "seven classes, the eighth from half on", Events: half,
		concept: after(lacking, base)},
	{Name: "vanishes", Title: "A class vanishes", About: "eight classes, seven from half on", Events: half,
		concept: after(base, lacking)},
	{Name: "imbalance", Title: "1:200", About: "one class has a 200th of the rows of each other; a rotation at half",
		Events: half, concept: after(rare, rareAnd)},
	{Name: "noise", Title: "Label noise", About: "a tenth of the labels name another class; a rotation at half",
		Events: half, concept: after(base, rotated), Noise: 0.1},
	{Name: "recurring", Title: "Recurring concepts", About: "A B A B, a quarter of the stream each; B is A rotated",
		Events: []Event{{0.25, 0.25}, {0.5, 0.5}, {0.75, 0.75}},
		concept: at(func(w *World, place float64) *Concept {
			if quarter := min(int(4*place), 3); quarter%2 == 0 {
				return w.Base
			}
			return w.Rotated
		})},
	{Name: "poison6", Title: "Poison, 6,000 rows", About: "labels shuffled for 6,000 rows from half on",
		concept: after(base, base), Poison: Event{0.5, 0.65}},
	{Name: "poison20", Title: "Poison, 20,000 rows", About: "labels shuffled for 20,000 rows from three eighths on",
		concept: after(base, base), Poison: Event{0.375, 0.875}},
	{Name: "usps", Title: "USPS",
		About: "real: 7,000 handwritten digits of 16 x 16 pixels, then the same turned by a quarter; fresh rows are " +
			"of 2,298 others",
		Events: half, real: &usps},
}

// far is the shape of the streams of dependent rows.
var far = Shape{Features: 48, Classes: 8, Separation: 1.4}

// narrow is the shape of the streams that drift steadily.
var narrow = Shape{Features: 10, Classes: 2}

// Dependent are the streams whose rows, labels or changes come as in real streams.
var Dependent = slices.Concat(
	[]Stream{{Name: "independent", Title: "Independent rows", About: "the rows of the next streams, in no order",
		Rows: 16_000, Shape: far, concept: after(base, base)}},
	runs(30, 300, 700, 1000, 2000),
	[]Stream{
		dependent("markov30", "Markov labels", "a label keeps its class for 30 rows in the mean", order{mean: 30}),
		dependent("markov100", "Markov labels", "for 100 rows in the mean", order{mean: 100}),
		dependent("ar", "Autocorrelated noise", "runs of 30 rows; the noise has autocorrelation 0.9 within a run",
			order{run: 30, ar: 0.9}),
		dependent("copies", "Copies", "each row ten times in a row", order{copies: 10}),
		dependent("copies100", "Copies", "each row a hundred times in a row", order{copies: 100}),
		dependent("ar99", "Autocorrelated noise", "runs of 30 rows; the noise has autocorrelation 0.99 within a run",
			order{run: 30, ar: 0.99}),
		{Name: "usps-sorted", Title: "USPS sorted", About: "real: 7,000 digits of 8 x 8 pixels, class by class",
			real: &usps8, sorted: true, Rows: 7000},
		{Name: "usps-shuffled", Title: "USPS shuffled", About: "the same in random order", real: &usps8, Rows: 7000},
		{Name: "digits-sorted", Title: "Digits sorted", About: "real: 1,250 digits of the demo, class by class",
			real: &demo, sorted: true, Rows: 1250},
		{Name: "digits-shuffled", Title: "Digits shuffled", About: "the same in random order", real: &demo, Rows: 1250},
		{Name: "rare", Title: "1:1000", About: "one row in 1,000 is of the last class; fresh rows have even shares",
			Rows: 30_000, Shape: far, concept: after(rarest, rarest), fresh: after(base, base)},
		{Name: "wrong10", Title: "Label noise", About: "a tenth of the labels name another class", Rows: 16_000,
			Shape: far, Noise: 0.1, concept: after(base, base)},
		{Name: "wrong30", Title: "Label noise", About: "three tenths", Rows: 16_000, Shape: far, Noise: 0.3,
			concept: after(base, base)},
		{Name: "wrong20runs", Title: "Label noise in runs", About: "classes in runs of 300 rows; a fifth of the labels " +
			"name another class", Rows: 16_000, Shape: far, Noise: 0.2, order: order{run: 300}, concept: after(base, base)},
		{Name: "poison", Title: "Poison", About: "labels shuffled from 10,000 rows on, for 20,000 rows", Rows: 40_000,
			Shape: Usual, Poison: Event{0.25, 0.75}, concept: after(base, base)},
		{Name: "poison-early", Title: "Early poison", About: "labels shuffled from 500 rows on, for 5,000 rows; runs of 30 " +
			"rows, noise with autocorrelation 0.9", Rows: 16_000, Shape: far, order: order{run: 30, ar: 0.9},
			Poison: Event{0.03125, 0.34375}, concept: after(base, base)},
	},
	turning(5, 10, 20), hyperplanes(5, 10),
	[]Stream{
		{Name: "seasons", Title: "Seasons", About: "two concepts, 2,000 rows each in turn", Rows: 24_000, Shape: far,
			concept: seasons(2000)},
		{Name: "seasonsruns", Title: "Seasons in runs", About: "two concepts, 4,000 rows each in turn; labels in runs of " +
			"100 rows", Rows: 24_000, Shape: far, order: order{run: 100},
			concept: seasons(4000)},
		{Name: "classes", Title: "New classes", About: "a new class every 1,000 rows, 20 in all", Rows: 24_000,
			Shape:   Shape{Features: 48, Classes: 20, Separation: 2},
			concept: func(w *World, row, _ int) *Concept { return w.first(1 + row/1000) }},
		{Name: "late", Title: "Late labels", About: "each label 2,000 rows after its row", Rows: 16_000, Shape: far,
			Delay: 2000, concept: after(base, base)},
		{Name: "slower", Title: "Labels that come later and later", About: "after 250 rows at first, after 5,500 at the " +
			"end, those of the last 5,500 rows after all rows; a rotation at half", Rows: 16_000, Shape: far, Delay: 250,
			Slower: 0.5, Events: half,
			concept: after(base, rotated)},
		{Name: "tails", Title: "Heavy tails", About: "the noise has Student's distribution with two degrees of freedom; a " +
			"rotation at half", Rows: 16_000, Shape: far, order: order{tails: true}, Events: half,
			concept: after(base, rotated)},
		{Name: "machines", Title: "Machines", About: "each message is of one of five machines, whose features have " +
			"other offsets, two standard deviations of the noise or more", Rows: 16_000, Shape: far,
			concept: func(w *World, row, _ int) *Concept { return w.offset(row / BatchRows * 2 % 5) }},
		{Name: "reversed", Title: "Reversed labels", About: "all labels after 12,000 rows, the newest first; a rotation at " +
			"half", Rows: 12_000, Shape: far, Reversed: true, Events: half, concept: after(base, rotated)},
		{Name: "sparse", Title: "Few labels", About: "one row in a hundred has a label; a rotation at half",
			Rows: 100_000, Shape: Usual, Labelled: 0.01, Events: half, concept: after(base, rotated)},
		{Name: "missing", Title: "Missing features", About: "a tenth of the rows lack features; a rotation at half",
			Rows: 16_000, Shape: far, Missing: 0.1, Events: half, concept: after(base, rotated)},
	})

// seasons has two concepts in turn, with this many rows each time.
func seasons(length int) func(*World, int, int) *Concept {
	return func(w *World, row, _ int) *Concept {
		if row/length%2 == 0 {
			return w.Base
		}
		return w.Rotated
	}
}

// dependent is a stationary stream whose rows depend on each other.
func dependent(name, title, about string, o order) Stream {
	return Stream{Name: name, Title: title, About: about, Rows: 16_000, Shape: far, order: o, concept: after(base, base)}
}

func runs(lengths ...int) (all []Stream) {
	for _, n := range lengths {
		all = append(all, dependent(fmt.Sprint("runs", n), "Runs", fmt.Sprintf("labels in runs of %d rows", n),
			order{run: n}))
	}
	return all
}

// radians of a drift in degrees per 1,000 rows.
func radians(degrees, row int) float64 { return float64(degrees) * math.Pi / 180 * float64(row) / 1000 }

func turning(degrees ...int) (all []Stream) {
	for _, g := range degrees {
		all = append(all, Stream{Name: fmt.Sprint("turning", g), Title: "Turning direction", Rows: 19_000, Shape: narrow,
			About:   fmt.Sprintf("two classes; the direction between them turns by %d degrees in 1,000 rows", g),
			concept: func(w *World, row, _ int) *Concept { return w.turned(radians(g, row), 1.7) }})
	}
	return all
}

func hyperplanes(degrees ...int) (all []Stream) {
	for _, g := range degrees {
		all = append(all, Stream{Name: fmt.Sprint("hyperplane", g), Title: "Rotating hyperplane", Rows: 19_000,
			Shape: narrow, Noise: 0.1,
			About:   fmt.Sprintf("two classes; the plane between them turns by %d degrees; a tenth of wrong labels", g),
			concept: func(w *World, row, _ int) *Concept { return w.sides(radians(g, row)) }})
	}
	return all
}

// Named returns the stream of a name.
func Named(name string) (Stream, error) {
	all := slices.Concat(Abrupt, Dependent)
	i := slices.IndexFunc(all, func(s Stream) bool { return s.Name == name })
	if i < 0 {
		return Stream{}, fmt.Errorf("no stream %q; there are %s", name, strings.Join(Names(all), ", "))
	}
	return all[i], nil
}

// Names returns the names of streams.
func Names(all []Stream) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// IsPoisoned reports whether the labels at a place are shuffled.
func (s Stream) IsPoisoned(place float64) bool {
	return s.Poison.Start <= place && place < s.Poison.End
}

// RowOf returns the row at a share of a stream, rounded to the border of a message.
func RowOf(place float64, rows int) int {
	return int(math.Round(place*float64(rows)/BatchRows)) * BatchRows
}

// shape is the size of the world of a stream.
func (s Stream) shape() Shape {
	if s.Shape == (Shape{}) {
		return Usual
	}
	return s.Shape
}

// Open starts a stream with a number of rows, a multiple of BatchRows; 0 means the usual one.
func (s Stream) Open(rows int, seed uint64) (Source, error) {
	if rows == 0 {
		rows = s.Rows
	}
	if rows == 0 {
		rows = UsualRows
	}
	if rows < 2*BatchRows || rows%BatchRows != 0 {
		return nil, fmt.Errorf("%d rows are not a multiple of %d, or too few", rows, BatchRows)
	}
	if s.real != nil {
		return openRecorded(s, rows, seed)
	}
	w := NewWorld(seed, s.shape())
	random := rand.New(rand.NewPCG(seed, 2))
	return &generatedStream{stream: s, world: w, total: rows, random: random, rows: s.order.begin()}, nil
}
