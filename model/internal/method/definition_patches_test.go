package method_test

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// divide splits the rows into patches. It splits the largest patch, the last one on ties, until each has fewer than
// limit rows. Of these divisions it returns the one whose mean ratio of geodesic to Euclidean distance, the
// mean over its patches, is closest to 1, the first one on ties. It also returns the patch of each row. Both are nil if
// rounding errors decide.
func divide(x *mat.Dense, k, limit int) (patches [][]int, of []int) {
	n, _ := x.Dims()
	for k = min(k, n-1); !joined(x, k, anyPair).union().isConnected(); {
		k = min(k+2, n-1)
	}
	near, g := joined(x, k, anyPair), geodesics(x, k)
	var all []int
	for i := range n {
		all = append(all, i)
	}
	best, order := math.Inf(1), &comparison{}
	for level := [][]int{all}; ; {
		mean := 0.0
		for _, rows := range level {
			mean += stretch(x, g, rows) / float64(len(level))
		}
		if off := math.Abs(mean - 1); order.less(off, best) {
			best, patches = off, slices.Clone(level)
		}
		largest := 0
		for p, rows := range level {
			if len(rows) >= len(level[largest]) {
				largest = p
			}
		}
		if len(level[largest]) < limit {
			break
		}
		left, right := split(x, near, g, level[largest], order)
		level = append([][]int{left, right}, slices.Delete(slices.Clone(level), largest, largest+1)...)
	}
	if order.byRounding {
		return nil, nil
	}
	of = make([]int, n)
	for p, rows := range patches {
		for _, i := range rows {
			of[i] = p
		}
	}
	return patches, of
}

// comparison notes whether rounding errors decided one: both numbers are equal but for those.
type comparison struct{ byRounding bool }

func (c *comparison) less(a, b float64) bool {
	c.byRounding = c.byRounding || math.Abs(a-b) <= 1e-12
	return a < b
}

// stretch is the mean ratio of geodesic to Euclidean distance of all pairs, in which equal rows have 1.
func stretch(x *mat.Dense, g pairGraph, rows []int) float64 {
	sum := 0.0
	for _, i := range rows {
		for _, j := range rows {
			if d := math.Sqrt(distance2(x, i, j)); d > 0 {
				sum += g[i][j] / d
			} else {
				sum++
			}
		}
	}
	return sum / float64(len(rows)*len(rows))
}

// split grows two patches from the rows that are farthest apart along the manifold. In each round they take the free
// rows that are among the nearest rows of theirs. A row that both reach goes to one that has a single row, else to the
// less stretched. A patch of a single row that reaches none takes the nearest one. If none is reached, the rows go to
// the smaller patch.
func split(x *mat.Dense, near, g pairGraph, rows []int, order *comparison) (left, right []int) {
	free := slices.Sorted(slices.Values(rows))
	first, second := free[0], free[1]
	for a, i := range free {
		for _, j := range free[a+1:] {
			if g[i][j] > g[first][second] {
				first, second = i, j
			}
		}
	}
	for a, i := range free {
		for _, j := range free[a+1:] {
			if g[i][j] != g[first][second] {
				order.less(g[i][j], g[first][second])
			}
		}
	}
	right, left = []int{first}, []int{second}
	take := func(to *[]int, i int) {
		if at := slices.Index(free, i); at >= 0 {
			*to, free = append(*to, i), slices.Delete(free, at, at+1)
		}
	}
	take(new([]int), first)
	take(new([]int), second)
	for len(free) > 0 {
		reached := func(from []int) (out []int) {
			for _, i := range free {
				if slices.ContainsFunc(from, func(j int) bool { return near[j][i] > 0 }) {
					out = append(out, i)
				}
			}
			return out
		}
		toLeft, toRight := reached(left), reached(right)
		for _, side := range []struct {
			to   *[]int
			rows []int
		}{{&left, toLeft}, {&right, toRight}} {
			if own := (*side.to)[0]; len(side.rows) == 0 && len(*side.to) == 1 && len(free) > 0 {
				take(side.to, slices.MinFunc(free, func(i, j int) int { return cmp.Compare(g[own][i], g[own][j]) }))
			}
		}
		if len(toLeft) == 0 && len(toRight) == 0 {
			for _, i := range slices.Clone(free) {
				if len(left) < len(right) {
					take(&left, i)
				} else {
					take(&right, i)
				}
			}
		}
		for _, i := range toLeft {
			if !slices.Contains(toRight, i) {
				take(&left, i)
			}
		}
		for _, i := range toRight {
			if !slices.Contains(toLeft, i) {
				take(&right, i)
			}
		}
		for _, i := range toLeft {
			switch {
			case !slices.Contains(toRight, i):
			case len(left) == 1:
				take(&left, i)
			case len(right) == 1:
				take(&right, i)
			case order.less(stretch(x, g, left), stretch(x, g, right)):
				take(&left, i)
			default:
				take(&right, i)
			}
		}
	}
	return left, right
}
