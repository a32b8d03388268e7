package streams

import (
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// small is the shape of a half of the twins of normal classes. Means are as far apart, in units of the noise, as those
// of the streams of dependent rows.
var small = Shape{Features: 6, Classes: 8, Separation: Nuisance * 1.4}

// Twins are the twins of the dependent streams, except that of new classes, those whose classes are the sides of a
// plane, and the digits of the demo, of whose features some are constant.
func Twins() (all []Stream) {
	for _, s := range Dependent {
		if s.real == &usps8 || s.real == nil && s.Name != "classes" && s.concept(NewWorld(1, s.shape()), 0, 1).plane == nil {
			all = append(all, s.twin())
		}
	}
	return all
}

// twin returns a stream with the order, labels and changes of this one, whose rows have two halves that are
// independent given the class. A projection on the first half and one on the second have the same class-balanced
// accuracy, whatever the concept: the second half has the means of other classes of the same share, or of the same
// class, and of a file another row of the class. Each row of a file is in two rows of its twin, once in each half, so
// that the two projections differ less over many rows than with independent halves.
func (s Stream) twin() Stream {
	if s.real != nil {
		read := s.real.read
		s.real = &dataset{func() (*model.Data, error) {
			d, err := read()
			if err != nil {
				return nil, err
			}
			return paired(d), nil
		}, s.real.stream}
		return s
	}
	if s.Shape != narrow {
		s.Shape = small
	}
	inner := s.concept
	s.concept = func(w *World, row, rows int) *Concept { return inner(w, row, rows).twin() }
	if inner := s.fresh; inner != nil {
		s.fresh = func(w *World, row, rows int) *Concept { return inner(w, row, rows).twin() }
	}
	return s
}

// twin is the concept of two halves. The classes of the first share, all but the last one, change places.
func (c *Concept) twin() *Concept {
	k, m := c.means.Dims()
	means, spread := mat.NewDense(k, 2*m, nil), mat.NewDense(2*m, 2*m, nil)
	for y := range k {
		other := y
		if y < k-1 {
			other = (y + 1) % (k - 1)
		}
		means.SetRow(y, slices.Concat(c.means.RawRowView(y), c.means.RawRowView(other)))
	}
	spread.Slice(0, m, 0, m).(*mat.Dense).Copy(c.spread)
	spread.Slice(m, 2*m, m, 2*m).(*mat.Dense).Copy(c.spread)
	return &Concept{shares: c.shares, means: means, spread: spread}
}

// paired has the features of another row of the same class behind those of each row.
func paired(d *model.Data) *model.Data {
	of := make([][]int, len(d.Classes))
	for i, y := range d.Y {
		of[y] = append(of[y], i)
	}
	twice := &model.Data{N: d.N, M: 2 * d.M, Y: d.Y, Classes: d.Classes, X: make([]float64, 0, 2*len(d.X))}
	place := make([]int, len(d.Classes))
	for i, y := range d.Y {
		place[y]++
		j := of[y][place[y]%len(of[y])]
		twice.X = append(append(twice.X, d.X[i*d.M:(i+1)*d.M]...), d.X[j*d.M:(j+1)*d.M]...)
	}
	return twice
}
