package graph

import (
	"cmp"
	"slices"
)

// ShortestPairs keeps the k shortest pairs (i, j), j in the list of i: of all pairs,
// counted once where both rows list each other (y nil), or for each class of i
// by itself. Ties go to the pair with the lower row, then the lower other row.
// With lists at least k long these are the k shortest pairs there are.
func (nb *Neighbors) ShortestPairs(k int, y []int) *Neighbors {
	type pair struct {
		Edge
		i int // whose list it is kept in
	}
	pairs := map[int][]pair{}
	for i := range nb.Len() {
		index, dist2 := nb.Of(i)
		for p, j := range index {
			if y != nil {
				pairs[y[i]] = append(pairs[y[i]], pair{Edge{i, j, dist2[p]}, i})
			} else {
				pairs[0] = append(pairs[0], pair{Edge{min(i, j), max(i, j), dist2[p]}, i})
			}
		}
	}
	kept := make([]bool, len(nb.index))
	for _, all := range pairs {
		slices.SortFunc(all, func(a, b pair) int {
			return cmp.Or(cmp.Compare(a.Dist2, b.Dist2), a.I-b.I, a.J-b.J, a.i-b.i)
		})
		for left, p := k, 0; p < len(all) && left > 0; p++ {
			if p > 0 && all[p].Edge == all[p-1].Edge {
				continue
			}
			e := all[p]
			index, _ := nb.Of(e.i)
			kept[nb.start[e.i]+slices.Index(index, e.I+e.J-e.i)] = true
			left--
		}
	}
	out := &Neighbors{start: make([]int, nb.Len()+1)}
	for i := range nb.Len() {
		for p := nb.start[i]; p < nb.start[i+1]; p++ {
			if kept[p] {
				out.index, out.dist2 = append(out.index, nb.index[p]), append(out.dist2, nb.dist2[p])
			}
		}
		out.start[i+1] = len(out.index)
	}
	return out
}
