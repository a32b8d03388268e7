package pencil_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/pencil"
)

// The two smoothest functions on a path of four nodes, the constant aside.
func ExamplePartial() {
	laplacian := mat.NewSymDense(4, []float64{
		1, -1, 0, 0,
		-1, 2, -1, 0,
		0, -1, 2, -1,
		0, 0, -1, 1,
	})
	constant := mat.NewDense(4, 1, []float64{1, 1, 1, 1})
	p, err := pencil.Partial(context.Background(), pencil.Dense(laplacian), pencil.Min, 2, constant)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f, next %.4f\n", p.Values, p.Next)
	// Output: [0.5858 2.0000], next 3.4142
}
