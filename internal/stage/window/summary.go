package window

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/embedd/embedd/model/moments"
)

// Range says which messages a summary is of: those of a stream, told by the time of its making, from one sequence number
// to another.
type Range struct {
	Created     int64
	First, Last uint64
}

// Summary is what is learned of a range of a stream, in place of its rows: some rows, and the moments of the others that
// fits are made from. It is a function of the range and of the configuration alone, so that it does not matter who made
// it, how often, or when.
//
// The rows that it carries are those of the smallest draws in each class, as many held-out ones as others; all of a class
// that has few. The moments are of the rest that are not held out.
type Summary struct {
	Range
	Settings string   // a digest of the configuration that it follows from
	Features []string // names, in the order of the rows
	Labelled bool
	Classes  []string     // of the rows that are not carried, sorted; "" alone without labels
	Beside   []int        // rows of each that are not carried, held-out ones counted
	Rows     []Row        // that are carried, in order
	Moments  *moments.Set // class i is Classes[i]; without labels it has no classes
	Read     Read

	placed bool // see Place
}

// Place gives the rows a place in another stream, in which the summary stands as one message, and the time of that. Which
// of them are held out stays as it was drawn by their own positions.
func (s *Summary) Place(at Position, nanos int64, holdout float64) {
	held := share(holdout)
	for i := range s.Rows {
		r := &s.Rows[i]
		r.held = r.draw(drawHeld) < held
		r.Position, r.Time = Position{Created: at.Created, Seq: at.Seq, Row: i}, nanos
	}
	s.placed = true
}

// Read counts the rows that a summary was made from.
type Read struct {
	Rows       int `json:"rows"`
	Unlabelled int `json:"unlabelled,omitempty"`
	Faulty     int `json:"faulty,omitempty"` // with a missing feature
	Far        int `json:"far,omitempty"`    // with a feature too far from the others'
	Overfull   int `json:"overfull,omitempty"`
	Unread     int `json:"unread,omitempty"` // messages that could not be decoded, or for which there was no room
}

// Len is the number of rows that are learned from it, held-out ones counted.
func (s *Summary) Len() int {
	n := len(s.Rows)
	for _, more := range s.Beside {
		n += more
	}
	return n
}

// carriedRows is about how many rows of each part a summary carries: at least enoughRows of a class, so that what stands
// in the moments of a class alone always suffices to enter a fit.
const carriedRows = 64

// Summarise sums up rows that come in order, each time they are asked for. Their features need not outlive the next row.
// Of the configuration Features, Classes, Holdout, Balance and Labelled count. The sums go to their end whether or not ctx
// does; between two of them it is looked at.
func Summarise(ctx context.Context, c Config, rows iter.Seq[*Row]) (*Summary, error) {
	d := &digest{config: c, held: share(c.Holdout), tally: map[string]*tally{}}
	if err := d.look(ctx, rows); err != nil {
		return nil, err
	}
	if err := d.pick(ctx, rows); err != nil {
		return nil, err
	}
	return d.sum(ctx, rows)
}

// digest is a summary on its way: what is usual, which classes there are, which rows are carried, and then the sums.
type digest struct {
	config Config
	held   uint64 // as in a window
	usual  *usual
	ratios []float64 // of each row, how far it is
	tally  map[string]*tally
	order  []string // labels, as they came
	out    Summary
}

// tally is what is known of one label.
type tally struct {
	rows     int // that are not far
	learned  int // of them, that are not held out
	taken    bool
	thin     uint64         // rows whose draw is not below are left out of the sums; see balance
	carried  [2][]candidate // of the smallest draws: those learned from, those held out
	number   int            // in the sums
	leftOver int            // rows that are not carried
}

// candidate is a row that may be carried: the n-th.
type candidate struct {
	draw uint64
	n    int
}

// look finds what is usual.
func (d *digest) look(ctx context.Context, rows iter.Seq[*Row]) error {
	var least []candidate
	var x [][]float64
	n := 0
	for r := range rows {
		at := candidate{r.draw(drawUsual), n}
		n++
		i, _ := slices.BinarySearchFunc(least, at, compareDraws)
		if i < siftRows {
			if len(least) == siftRows {
				least, x = least[:siftRows-1], x[:siftRows-1]
			}
			least, x = slices.Insert(least, i, at), slices.Insert(x, i, slices.Clone(r.X))
		}
		if n%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	d.usual = usualOf(x, d.config)
	d.ratios = make([]float64, 0, n)
	for r := range rows {
		ratio, _ := d.usual.ratio(r.X)
		d.ratios = append(d.ratios, ratio)
		if len(d.ratios)%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	d.usual.bound(d.ratios)
	d.out.Read.Rows = n
	return nil
}

func compareDraws(a, b candidate) int {
	switch {
	case a.draw < b.draw:
		return -1
	case a.draw > b.draw:
		return 1
	}
	return a.n - b.n
}

func (d *digest) far(n int) bool { return d.usual.far(d.ratios[n]) }

func (d *digest) part(r *Row) int {
	if r.draw(drawHeld) < d.held {
		return 1
	}
	return 0
}

// pick counts labels, and says which rows are carried.
func (d *digest) pick(ctx context.Context, rows iter.Seq[*Row]) error {
	n := -1
	for r := range rows {
		if n++; d.far(n) {
			d.out.Read.Far++
			continue
		}
		t := d.tally[r.Label]
		if t == nil {
			t = &tally{}
			d.tally[r.Label] = t
			d.order = append(d.order, r.Label)
		}
		t.rows++
		part := d.part(r)
		if part == 0 {
			t.learned++
		}
		at := candidate{r.draw(drawCarried), n}
		i, _ := slices.BinarySearchFunc(t.carried[part], at, compareDraws)
		if i < carriedRows {
			if len(t.carried[part]) == carriedRows {
				t.carried[part] = t.carried[part][:carriedRows-1]
			}
			t.carried[part] = slices.Insert(t.carried[part], i, at)
		}
		if n%sumRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	d.bound()
	d.balance()
	return nil
}

// bound keeps the most frequent classes, and of each as many rows as are carried.
func (d *digest) bound() {
	slices.SortFunc(d.order, func(a, b string) int {
		if n := d.tally[b].rows - d.tally[a].rows; n != 0 {
			return n
		}
		if a < b {
			return -1
		}
		return 1
	})
	kept := d.order
	if most := d.config.Classes; most > 0 && len(kept) > most {
		for _, label := range kept[most:] {
			d.out.Read.Overfull += d.tally[label].rows
		}
		kept = kept[:most]
	}
	most := max(enoughRows, carriedRows/max(len(kept), 1))
	for _, label := range kept {
		t := d.tally[label]
		t.taken, t.leftOver = true, t.rows
		for part, c := range t.carried {
			t.carried[part] = c[:min(len(c), most)]
			t.leftOver -= len(t.carried[part])
		}
		if t.leftOver > 0 {
			d.out.Classes = append(d.out.Classes, label)
		}
	}
	slices.Sort(d.out.Classes)
	d.out.Beside = make([]int, len(d.out.Classes))
	for i, label := range d.out.Classes {
		d.tally[label].number, d.out.Beside[i] = i, d.tally[label].leftOver
	}
}

// balance thins classes that have more than their share of the rows that are learned from: of such a class a row is
// summed as often as brings it to the share. Labels of a few rows are no class that others make room for.
func (d *digest) balance() {
	all, classes := 0, 0
	for _, t := range d.tally {
		if t.thin = math.MaxUint64; t.taken && t.learned > enoughRows {
			all, classes = all+t.learned, classes+1
		}
	}
	if !d.config.Balance || !d.config.Labelled || classes < 2 {
		return
	}
	fair := float64(all) / float64(classes)
	for _, t := range d.tally {
		if float64(t.learned) > fair {
			t.thin = share(fair / float64(t.learned))
		}
	}
}

// sum copies what is carried and sums the rest.
func (d *digest) sum(ctx context.Context, rows iter.Seq[*Row]) (*Summary, error) {
	carried := map[int]bool{}
	for _, t := range d.tally {
		for _, part := range t.carried {
			for _, c := range part {
				carried[c.n] = t.taken
			}
		}
	}
	s, m := &d.out, d.config.Features
	s.Labelled, s.Moments = d.config.Labelled, moments.New(m, false)
	x, y := make([]float64, 0, sumRows*m), make([]int, 0, sumRows)
	flush := func() error {
		classes := y
		if !d.config.Labelled {
			classes = nil
		}
		err := s.Moments.Add(ctx, x, classes, nil)
		x, y = x[:0], y[:0]
		if err != nil {
			return fmt.Errorf("summing rows: %w", err)
		}
		return ctx.Err()
	}
	n := -1
	for r := range rows {
		if n++; d.far(n) {
			continue
		}
		t := d.tally[r.Label]
		switch {
		case !t.taken:
		case carried[n]:
			own := *r
			own.X = slices.Clone(r.X)
			s.Rows = append(s.Rows, own)
		case d.part(r) == 0 && (t.thin == math.MaxUint64 || r.draw(drawThinned) < t.thin):
			if x, y = append(x, r.X...), append(y, t.number); len(y) == sumRows {
				if err := flush(); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(y) > 0 {
		if err := flush(); err != nil {
			return nil, err
		}
	}
	return s, nil
}
