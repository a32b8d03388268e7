package score

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/graph"
)

// Nearest returns, for each of queryN rows, the index of the nearest of refN reference rows by Euclidean distance,
// ties to the lower index. Rows are row-major with dim numbers, all finite. Without references it is nil.
func Nearest(ctx context.Context, ref []float64, refN int, query []float64, queryN, dim int) ([]int, error) {
	return Neighbors(ctx, ref, refN, query, queryN, dim, 1)
}

// Neighbors returns the indices of the k nearest references of each query, queryN x k row-major, nearest first, ties
// to the lower index. k is limited to refN. The result is that of comparing float64 sums of squared differences one
// pair after the other, but it is computed faster, and on as many cores as ctx allows. ref and query have at least refN
// and queryN rows.
func Neighbors(ctx context.Context, ref []float64, refN int, query []float64, queryN, dim, k int) ([]int, error) {
	if k < 1 {
		return nil, fmt.Errorf("neighbours: k is %d; it must be at least 1", k)
	}
	k = min(k, refN)
	if k < 1 || queryN < 1 {
		return nil, nil
	}
	if dim < 1 || len(ref)/dim < refN || len(query)/dim < queryN {
		return nil, fmt.Errorf("neighbours: %d and %d numbers are less than %d references and %d queries of %d numbers",
			len(ref), len(query), refN, queryN, dim)
	}
	found := make([]int, 0, queryN*k)
	nb, err := graph.NearestTo(ctx, mat.NewDense(refN, dim, ref[:refN*dim]),
		mat.NewDense(queryN, dim, query[:queryN*dim]), k)
	if err != nil {
		return nil, err
	}
	for i := range queryN {
		at, _ := nb.Row(i)
		found = append(found, at...)
	}
	return found, nil
}

// CorrectNN counts the queries whose class the vote of their k nearest references gives: the class with most of the k,
// ties to the class of the nearest of these. refY and queryY are the classes; rows are as in Neighbors.
func CorrectNN(ctx context.Context, ref []float64, refY []int, query []float64, queryY []int, dim, k int) (int, error) {
	right, err := CorrectRowsNN(ctx, ref, refY, query, queryY, dim, k)
	return count(right), err
}

func count(right []bool) (n int) {
	for _, is := range right {
		if is {
			n++
		}
	}
	return n
}

// CorrectRowsNN is CorrectNN for each query.
func CorrectRowsNN(ctx context.Context, ref []float64, refY []int, query []float64, queryY []int, dim,
	k int) ([]bool, error) {
	at, err := Neighbors(ctx, ref, len(refY), query, len(queryY), dim, k)
	if err != nil {
		return nil, err
	}
	k = min(k, len(refY))
	votes := map[int]int{}
	right := make([]bool, len(queryY))
	for i, y := range queryY {
		clear(votes)
		most := 0
		for _, j := range at[i*k : (i+1)*k] {
			votes[refY[j]]++
			most = max(most, votes[refY[j]])
		}
		for _, j := range at[i*k : (i+1)*k] {
			if votes[refY[j]] == most {
				right[i] = refY[j] == y
				break
			}
		}
	}
	return right, nil
}
