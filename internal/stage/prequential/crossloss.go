package prequential

import (
	"context"
	"math"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
)

// Loss is the accuracy that readers of stored outputs lose, estimated on some rows.
type Loss struct {
	Mean  float64
	Error float64 // standard error; +Inf: not known
	Rows  int     // that it was estimated on
}

// comparedNeighbors is the number of nearest rows by which a row is classified. The share of them that have its label
// has about the mean of one nearest row among as many times fewer, and a smaller variance.
const comparedNeighbors = 10

// CrossLoss is the accuracy that is lost if the outputs of model first are the references for outputs of model next. It
// classifies each row by its nearest ones among the others, outside of its neighbourhood, where copies would answer for
// it. The rows are in the order of their positions, and both models have as many outputs.
//
// The standard error is from the sums of stretches, since rows next to each other may depend on each other. A row
// counts for its own class and, as a reference, for those of others.
func CrossLoss(ctx context.Context, first, next *model.Model, rows []*window.Row) (Loss, error) {
	n, d := len(rows), next.Dim()
	if n < 2 {
		return Loss{Error: math.Inf(1)}, nil
	}
	x := make([]float64, 0, n*next.M())
	for _, r := range rows {
		x = append(x, r.X...)
	}
	before, err := project(ctx, first, x, n)
	if err != nil {
		return Loss{}, err
	}
	after, err := project(ctx, next, x, n)
	if err != nil {
		return Loss{}, err
	}
	var found neighbors
	var classes numbering
	classes.set(rows)
	own := &knnAccuracy{rows: rows, influence: make([]float64, n)}
	cross := &knnAccuracy{rows: rows, influence: make([]float64, n)}
	references := [2]*outputs{{y: after, numbering: &classes}, {y: before, numbering: &classes}}
	for _, k := range references {
		k.setSums(d)
	}
	for i := 0; i < n; {
		if err := ctx.Err(); err != nil { // learning pauses there
			return Loss{}, err
		}
		near, count := nearOf(rows, rows[i]), 1
		for i+count < n && nearOf(rows, rows[i+count]) == near {
			count++
		}
		for at, by := range []*knnAccuracy{own, cross} {
			nearest, err := found.outside(ctx, references[at], near, after[i*d:(i+count)*d], comparedNeighbors)
			if err != nil {
				return Loss{}, err
			}
			by.add(i, count, nearest)
		}
		i += count
	}
	own.setInfluence()
	cross.setInfluence()
	if own.count == 0 {
		return Loss{Error: math.Inf(1)}, nil
	}
	squares, sum, stretches := 0.0, 0.0, 0
	for i := range rows {
		sum += own.influence[i] - cross.influence[i]
		if i+1 == n || !sameNeighbourhood(rows[i], rows[i+1]) {
			squares, sum, stretches = squares+sum*sum, 0, stretches+1
		}
	}
	count := float64(own.count)
	l := Loss{Mean: (own.right - cross.right) / count, Error: math.Sqrt(squares) / count, Rows: own.count}
	if stretches < 3 { // of two, each is in all pairs of a row and its nearest, so that their sums are 0
		l.Error = math.Inf(1)
	}
	return l, nil
}

func sameNeighbourhood(a, b *window.Row) bool {
	from, to := a.Neighbourhood()
	otherFrom, otherTo := b.Neighbourhood()
	return from == otherFrom && to == otherTo
}

// knnAccuracy counts how right the nearest rows in the outputs of one model are.
type knnAccuracy struct {
	rows      []*window.Row
	count     int     // rows that were classified
	right     float64 // sum over them of the share of the nearest that have their label
	influence []float64
	nearest   [][2]int  // a row and one of its nearest
	share     []float64 // of each of these in the sum
}

// add counts rows from i on, by their nearest others.
func (c *knnAccuracy) add(i, count int, nearest []int) {
	k := len(nearest) / count
	if k == 0 {
		return
	}
	c.count += count
	for j, at := range nearest {
		c.nearest, c.share = append(c.nearest, [2]int{i + j/k, at}), append(c.share, 1/float64(k))
		if row := i + j/k; c.rows[at].Label == c.rows[row].Label {
			c.right += 1 / float64(k)
		}
	}
}

// setInfluence sets the influence of each row on the sum, from its mean: as a row that is classified and as one of the
// nearest.
func (c *knnAccuracy) setInfluence() {
	mean := c.right / float64(max(c.count, 1))
	for j, pair := range c.nearest {
		v := -mean
		if c.rows[pair[0]].Label == c.rows[pair[1]].Label {
			v++
		}
		c.influence[pair[0]] += v * c.share[j]
		c.influence[pair[1]] += v * c.share[j]
	}
}

// KeepsDistances reports whether a model that was rotated and shifted has the distances between rows of the original
// one: a shift by a very large number rounds them away. x has n rows; the distances of successive ones are compared.
func KeepsDistances(ctx context.Context, original, moved *model.Model, x []float64, n int) (bool, error) {
	if original == moved || original.Dim() != moved.Dim() || n < 2 {
		return true, nil
	}
	d := original.Dim()
	before, err := project(ctx, original, x, n)
	if err != nil {
		return false, err
	}
	after, err := project(ctx, moved, x, n)
	if err != nil {
		return false, err
	}
	lost := 0
	for i := range n - 1 {
		was := squaredDistance(before[i*d:(i+1)*d], before[(i+1)*d:(i+2)*d])
		is := squaredDistance(after[i*d:(i+1)*d], after[(i+1)*d:(i+2)*d])
		if math.Abs(is-was) > maxRounding*was {
			lost++
		}
	}
	return 2*lost < n, nil
}

// maxRounding is the part of a squared distance that rounding may change.
const maxRounding = 0.01
