package model

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
)

// What methods that look at nearest rows have in common: lists with their
// lengths settled, and the forms of a graph.

func twoColumns(*task) int { return 2 }

func everyColumn(t *task) (int, string) { return t.columns, rankOfTotal }

// nearest lists the nearest rows of each row, as many as the parameter says.
func (t *task) nearest(ctx context.Context, parameter string) (*graph.Neighbors, error) {
	k, others := t.int(parameter), t.rows.n-1
	if k > others {
		t.report.note(fmt.Sprintf("%s=%d was clamped to %d: there are no more other rows", parameter, k, others))
	}
	t.say("neighbours", 0)
	return graph.Nearest(ctx, t.x, k)
}

// nearestByClass lists the nearest rows of the own class and of others, as many
// as the two parameters say or, where the class is shorter, as there are.
func (t *task) nearestByClass(ctx context.Context, same, other string) (own, foreign *graph.Neighbors, err error) {
	k1, k2 := t.int(same), t.int(other)
	t.noteShort(same, k1, func(rows int) int { return rows - 1 })
	t.noteShort(other, k2, func(rows int) int { return t.rows.n - rows })
	t.say("neighbours", 0)
	return graph.NearestByClass(ctx, t.x, t.rows.y, k1, k2)
}

// noteShort reports the classes whose rows find fewer than k others; of is how
// many the rows of a class of that size find.
func (t *task) noteShort(parameter string, k int, of func(rows int) int) {
	short, least := 0, k
	for _, n := range t.stat.counts {
		if found := of(int(math.Round(n))); found < k {
			short++
			least = min(least, found)
		}
	}
	if short > 0 {
		t.report.note(fmt.Sprintf("%s=%d was clamped in %d of %d classes, down to %d: there are no more rows", parameter, k, short, t.stat.classes(), least))
	}
}

// laplacianForm is X L X' of the graph that the lists make.
func laplacianForm(t *task, lists *graph.Neighbors, rule graph.Symmetry, weight graph.Weight) (*mat.SymDense, error) {
	w, err := lists.Weights(rule, weight)
	if err != nil {
		return nil, err
	}
	return graph.LaplacianForm(t.x, w)
}

// moment is X X', the sum of x x' about the mean.
func (t *task) moment() *mat.SymDense {
	s := mat.NewSymDense(t.m, nil)
	s.ScaleSym(t.stat.n, t.stat.total)
	return s
}

// heatParam is the width t of the weights exp(-d^2/t).
func heatParam(def, doc string) Param {
	return Param{Name: "t", Default: def, Doc: doc, check: func(s string) error {
		if s == "auto" || s == "inf" {
			return nil
		}
		if v, err := strconv.ParseFloat(s, 64); err != nil || !(v > 0) || !isFinite(v) {
			return fmt.Errorf("%q is not allowed; give auto, inf or a number > 0", s)
		}
		return nil
	}}
}

// heat is the weight that the parameter t asks for.
func (t *task) heat(lists *graph.Neighbors) graph.Weight {
	return graph.Heat(t.width(lists))
}

// width is the parameter t: auto is the mean squared distance to the nearest row
// of the lists, and +Inf makes weights of 1.
func (t *task) width(lists *graph.Neighbors) float64 {
	switch t.params["t"] {
	case "inf":
		return math.Inf(1)
	case "auto":
		return lists.MeanNearest()
	}
	return t.float("t")
}
