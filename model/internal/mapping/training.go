package mapping

import (
	"fmt"
)

// Training is what every extension of an embedding starts from: rows of the
// fit, in scaled coordinates, and where the fit put them. A row at distance 0
// from one of them is put where that one is, the first where there are several:
// no rule is asked. (The rules themselves do not all give it back.)
type Training struct {
	D         int
	Rows      []float64 // n x m
	Embedding []float64 // n x d
}

func (t *Training) Dim() int { return t.D }

// Len is the number of rows.
func (t *Training) Len() int { return len(t.Embedding) / t.D }

// Values are the outputs of the rows, n x d.
func (t *Training) Values() []float64 { return t.Embedding }

func (t *Training) Check(m, _ int) error {
	n := len(t.Rows) / m
	switch {
	case n < 1 || len(t.Rows) != n*m:
		return fmt.Errorf("%d numbers in rows; at least one row of %d is needed", len(t.Rows), m)
	case t.D > len(t.Embedding) || len(t.Embedding) != n*t.D: // the first keeps n*d from overflowing
		return fmt.Errorf("%d numbers in embedding, %d x %d are needed", len(t.Embedding), n, t.D)
	}
	return nil
}

// arrays of every extension, with those of its rule behind them.
func (t *Training) with(rule ...Array) []Array {
	n := t.Len()
	return append([]Array{
		{"rows", []int{n, len(t.Rows) / n}, t.Rows},
		{"embedding", []int{n, t.D}, t.Embedding},
	}, rule...)
}

// rebuildTraining takes the arrays of every extension, and checks that the
// rule's have these names and numbers of axes.
func rebuildTraining(kind string, arrays []Array, names []string, axes []int) (Training, []Array, error) {
	names = append([]string{"rows", "embedding"}, names...)
	axes = append([]int{2, 2}, axes...)
	if len(arrays) != len(names) || !named(arrays, names, axes) {
		return Training{}, nil, fmt.Errorf("a map of kind %s has the arrays %v, of %v axes, in this order", kind,
			names, axes)
	}
	return Training{arrays[1].Shape[1], arrays[0].Data, arrays[1].Data}, arrays[2:], nil
}

// put writes the embedding of row i to dst.
func (t *Training) put(dst []float64, i int) { copy(dst, t.Embedding[i*t.D:(i+1)*t.D]) }
