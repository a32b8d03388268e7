package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Repair selects what is done with a graph of several components: geodesics between them are infinite, and each adds an
// eigenvector.
type Repair string

const (
	Connect Repair = "connect" // join the components by the shortest edges
	Refuse  Repair = "error"   // return a *DisconnectedError
)

// DisconnectedError reports a graph of several components.
type DisconnectedError struct{ Sizes []int } // rows of each, largest first

// parts is the number of components that labels name.
func parts(label []int) int {
	if len(label) == 0 {
		return 0
	}
	return slices.Max(label) + 1
}

func disconnected(label []int) *DisconnectedError {
	sizes := make([]int, parts(label))
	for _, c := range label {
		sizes[c]++
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	return &DisconnectedError{Sizes: sizes}
}

func (e *DisconnectedError) Error() string {
	sizes := fmt.Sprint(e.Sizes)
	if len(e.Sizes) > 8 {
		sizes = fmt.Sprintf("%v and %d more", e.Sizes[:8], len(e.Sizes)-8)
	}
	return fmt.Sprintf("the neighbourhood graph has %d components, of %s rows; give more neighbours, "+
		"or connect the components", len(e.Sizes), sizes)
}

// weakEdge is the weight, relative to the median positive one, below which an edge does not connect: an eigenvector of
// the Laplacian then separates its ends at almost no cost, as if there were no edge.
const weakEdge = 1e-3

// medianWeight is the median of the positive weights between different rows, 0 if there is none.
func (a *Matrix) medianWeight() float64 {
	var positive []float64
	for i := range a.rows {
		index, value := a.Row(i)
		for p, j := range index {
			if j > i && value[p] > 0 {
				positive = append(positive, value[p])
			}
		}
	}
	return median(positive)
}

// Components labels the connected components of symmetric nonnegative weights: 0 for that of row 0, then in the order
// of their first rows. An edge connects if its weight is positive and at least 1e-3 of the median positive one.
func (a *Matrix) Components() []int {
	weak := weakEdge * a.medianWeight()
	return linalg.Sets(a.rows, func(join func(i, j int)) {
		for i := range a.rows {
			index, value := a.Row(i)
			for p, j := range index {
				if value[p] > 0 && value[p] >= weak {
					join(i, j)
				}
			}
		}
	})
}

// Components labels the rows that lists connect, in either direction.
func (nb *Neighbors) Components() []int {
	return joined(nb.Len(), nb.Row)
}

// joined labels the n rows that lists connect, in either direction.
func joined(n int, list func(i int) ([]int, []float64)) []int {
	return linalg.Sets(n, func(join func(i, j int)) {
		for i := range n {
			index, _ := list(i)
			for _, j := range index {
				join(i, j)
			}
		}
	})
}

// Edge is a pair of rows I < J and their squared distance.
type Edge struct {
	I, J  int
	Dist2 float64
}

// compare orders edges by length, then by index. No two are equal, so the minimum spanning tree is unique.
func (e Edge) compare(f Edge) int { return cmp.Or(cmp.Compare(e.Dist2, f.Dist2), e.I-f.I, e.J-f.J) }

// bridges is the minimum spanning tree over components, where component numbers that of each row from 0 on: each edge
// is the shortest one between the parts that it joins (Boruvka: every part takes its shortest outgoing edge, at most
// log2 of the number of components searches for nearest rows).
func bridges(ctx context.Context, x *mat.Dense, component []int) ([]Edge, error) {
	part := slices.Clone(component)
	var tree []Edge
	for parts(part) > 1 {
		_, out, err := NearestByClass(ctx, x, part, 0, 1)
		if err != nil {
			return nil, err
		}
		best, found := make([]Edge, parts(part)), make([]bool, parts(part))
		for i, c := range part {
			index, dist2 := out.Row(i)
			e := Edge{min(i, index[0]), max(i, index[0]), dist2[0]}
			if !found[c] || e.compare(best[c]) < 0 {
				best[c], found[c] = e, true
			}
		}
		for c, e := range best {
			// Both ends may have taken the same edge.
			if other := part[e.I] + part[e.J] - c; best[other] != e || c < other {
				tree = append(tree, e)
			}
		}
		merged := linalg.Sets(len(best), func(join func(i, j int)) {
			for _, e := range best {
				join(part[e.I], part[e.J])
			}
		})
		for i, c := range part {
			part[i] = merged[c]
		}
	}
	slices.SortFunc(tree, Edge.compare)
	return tree, nil
}

// repairEdges is the edges to add according to repair, none for a connected graph.
func repairEdges(ctx context.Context, x *mat.Dense, label []int, repair Repair) ([]Edge, error) {
	if n, _ := x.Dims(); n != len(label) {
		return nil, fmt.Errorf("components: a graph of %d rows, but %d rows given; give the rows that it was made of",
			len(label), n)
	}
	if repair != Connect && repair != Refuse {
		return nil, fmt.Errorf("unknown repair %q of components; give connect or error", repair)
	}
	if parts(label) < 2 {
		return nil, nil
	}
	if repair == Refuse {
		return nil, disconnected(label)
	}
	return bridges(ctx, x, label)
}

// Connect returns lists whose graph is connected, and the added edges. Each end of an added edge is in the list of the
// other, ordered by distance. x are the rows of the lists. Use it before geodesics and reconstruction weights;
// Matrix.Connect is for weights.
func (nb *Neighbors) Connect(ctx context.Context, x *mat.Dense, repair Repair) (*Neighbors, []Edge, error) {
	edges, err := repairEdges(ctx, x, nb.Components(), repair)
	if err != nil || len(edges) == 0 {
		return nb, nil, err
	}
	more := make([][]Edge, nb.Len())
	for _, e := range edges {
		more[e.I] = append(more[e.I], e)
		more[e.J] = append(more[e.J], e)
	}
	out := &Neighbors{start: make([]int, nb.Len()+1)}
	for i := range nb.Len() {
		index, dist2 := nb.Row(i)
		out.index, out.dist2 = append(out.index, index...), append(out.dist2, dist2...)
		for _, e := range more[i] {
			j, p := e.I+e.J-i, len(out.index)
			for p > out.start[i] && (e.Dist2 < out.dist2[p-1] || e.Dist2 == out.dist2[p-1] && j < out.index[p-1]) {
				p--
			}
			out.index, out.dist2 = slices.Insert(out.index, p, j), slices.Insert(out.dist2, p, e.Dist2)
		}
		out.start[i+1] = len(out.index)
	}
	return out, edges, nil
}

// Connect returns weights whose graph is connected, and the edges added or strengthened. The weight of such an edge is
// the largest of weight (nil: 0), its previous weight and the median positive weight (1 if there is none), so that it
// connects as well as an edge that was there. x are the rows of the weights.
func (a *Matrix) Connect(ctx context.Context, x *mat.Dense, repair Repair, weight Weight) (*Matrix, []Edge, error) {
	edges, err := repairEdges(ctx, x, a.Components(), repair)
	if err != nil || len(edges) == 0 {
		return a, nil, err
	}
	floor := cmp.Or(a.medianWeight(), 1) // 1: there is no positive weight
	added := make([]entry, len(edges))
	for k, e := range edges {
		v := floor
		if weight != nil {
			v = max(v, weight(e.I, e.J, e.Dist2))
		}
		added[k] = entry{int32(e.I), int32(e.J), v}
	}
	out := &Matrix{}
	return out, edges, merge(out, a, assemble(a.rows, added), Union)
}
