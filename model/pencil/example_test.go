package pencil_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

func Example() {
	n := mat.NewSymDense(2, []float64{4, 0, 0, 1})
	d := mat.NewSymDense(2, []float64{1, 0, 0, 2})
	q, err := pencil.Ridge(d, pencil.Rho(0, d, 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := pencil.Solve(context.Background(), n, q, pencil.Max, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("lambda = %.1f, rank %d, gap %.2f\n", s.Values, s.Rank, s.Gap)
	// Output: lambda = [4.0 0.5], rank 2, gap 0.88
}
