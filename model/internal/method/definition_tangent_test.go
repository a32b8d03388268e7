package method_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"
)

// tangentForm is the quadratic form
//
//	sum_ij w_ij (f_i - f_j - v_p(j)' T_p(j)' (x_i - x_j))^2 + gamma sum_ij w_ij |v_p(i) - T_p(i)' T_p(j) v_p(j)|^2
//
// over the values f at the rows, first, and the tangent vectors v. space is the tangent space of each patch, of the
// patch of each row.
func tangentForm(x *mat.Dense, w pairGraph, space []*mat.Dense, of []int, gamma float64) *mat.SymDense {
	n, m := x.Dims()
	start := []int{n}
	for _, t := range space {
		_, k := t.Dims()
		start = append(start, start[len(start)-1]+k)
	}
	q := mat.NewSymDense(start[len(space)], nil)
	add := func(weight float64, term map[int]float64) {
		for a, u := range term {
			for b, v := range term {
				if a <= b {
					q.SetSym(a, b, q.At(a, b)+weight*u*v)
				}
			}
		}
	}
	for i := range n {
		for j := range n {
			if w[i][j] == 0 {
				continue
			}
			p, r := of[j], of[i]
			_, k := space[p].Dims()
			_, l := space[r].Dims()
			term := map[int]float64{i: 1, j: -1}
			for c := range k {
				for e := range m {
					term[start[p]+c] -= space[p].At(e, c) * (x.At(i, e) - x.At(j, e))
				}
			}
			add(w[i][j], term)
			for a := range l {
				parallel := map[int]float64{start[r] + a: 1}
				for c := range k {
					for e := range m {
						parallel[start[p]+c] -= space[r].At(e, a) * space[p].At(e, c)
					}
				}
				add(gamma*w[i][j], parallel)
			}
		}
	}
	return q
}

// eliminate is the form over its first n variables at the best of the others, of which ridge times the mean diagonal
// entry penalises the squares. Directions without any weight do not count.
func eliminate(t testing.TB, q *mat.SymDense, n int, ridge float64) *mat.SymDense {
	t.Helper()
	size := q.SymmetricDim()
	out := mat.NewSymDense(n, nil)
	out.CopySym(q.SliceSym(0, n))
	if size == n {
		return out
	}
	s3 := mat.NewSymDense(size-n, nil)
	s3.CopySym(q.SliceSym(n, size))
	more := ridge * mat.Trace(s3) / float64(size-n)
	for c := range size - n {
		s3.SetSym(c, c, s3.At(c, c)+more)
	}
	values, vectors := eigen(t, s3)
	s2 := mat.NewDense(n, size-n, nil)
	for i := range n {
		for c := range size - n {
			s2.Set(i, c, q.At(i, n+c))
		}
	}
	for c, v := range values {
		if v > 1e-11*values[len(values)-1] {
			var along mat.VecDense
			along.MulVec(s2, vectors.ColView(c))
			out.SymRankOne(out, -1/v, &along)
		}
	}
	return out
}
