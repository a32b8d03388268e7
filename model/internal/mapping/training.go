package mapping

import (
	"fmt"
	"math"

	"github.com/embedd/embedd/model/internal/fail"
)

// Training is the rows of a fit in scaled coordinates and their outputs, which every extension of an embedding starts
// from. A row at distance 0 from one of them, the first if there are several, gets the outputs of that one, without
// the rule of the extension, which does not always reproduce them.
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
	return checkRows(t.Rows, m, "embedding", t.Embedding, t.D)
}

// checkRows checks that there are rows of m numbers, and d values for each in the array of a name.
func checkRows(rows []float64, m int, name string, values []float64, d int) error {
	n := len(rows) / m
	if n < 1 || len(rows) != n*m {
		return fmt.Errorf("%d numbers in rows; at least one row of %d is needed", len(rows), m)
	}
	if d > len(values) || len(values) != n*d { // the first keeps n*d from overflowing
		return fmt.Errorf("%d numbers in %s, %d x %d are needed", len(values), name, n, d)
	}
	return nil
}

// with are the arrays of an extension: those of the rows, then those of its rule.
func (t *Training) with(rule ...Array) []Array {
	n := t.Len()
	return append([]Array{
		{"rows", []int{n, len(t.Rows) / n}, t.Rows},
		{"embedding", []int{n, t.D}, t.Embedding},
	}, rule...)
}

// rebuildTraining rebuilds the rows from the arrays of an extension, and checks that the arrays of the rule have these
// names and numbers of axes.
func rebuildTraining(kind string, arrays []Array, names []string, axes []int) (Training, []Array) {
	names = append([]string{"rows", "embedding"}, names...)
	axes = append([]int{2, 2}, axes...)
	if len(arrays) != len(names) || !named(arrays, names, axes) {
		panic(fail.With(fmt.Errorf("a map of kind %s has the arrays %v, of %v axes, in this order", kind,
			names, axes)))
	}
	return Training{arrays[1].Shape[1], arrays[0].Data, arrays[1].Data}, arrays[2:]
}

// put writes the embedding of row i to dst.
func (t *Training) put(dst []float64, i int) { copy(dst, t.Embedding[i*t.D:(i+1)*t.D]) }

// average is the mean of the embedding of the near rows by their heat weights, which are taken relative to that of the
// nearest one.
func (t *Training) average(dst []float64, w *Workspace, rate, nearest float64) {
	clear(dst)
	sum := 0.0
	for c, i := range w.near {
		v := math.Exp(-rate * (w.near2[c] - nearest))
		sum += v
		for j, y := range t.Embedding[i*t.D : (i+1)*t.D] {
			dst[j] += v * y
		}
	}
	for j := range dst {
		dst[j] /= sum
	}
}

// MinDenominator is the smallest |1 - lambda_k|: below it the rule has no significant digits.
const MinDenominator = 1e-3

// extensible checks that the denominators of the rule are large enough.
func extensible(lambda []float64) error {
	for c, l := range lambda {
		if !(math.Abs(1-l) >= MinDenominator) {
			return fmt.Errorf("eigenvalue %d is %g; within %g of 1 an embedding cannot be extended to other rows; "+
				"give fewer dimensions", c, l, MinDenominator)
		}
	}
	return nil
}
