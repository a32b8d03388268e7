package moments

import (
	"errors"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
)

// TestPanicOfAProductIsAnError: in Add, the sums of a set are smaller than its rows, which only the products notice.
func TestPanicOfAProductIsAnError(t *testing.T) {
	const n, m = 300, 200
	x, y := rows(rand.New(rand.NewPCG(5, 9)), n, m, 3, 0)
	s := New(m, false)
	s.second = []*mat.SymDense{nil, mat.NewSymDense(10, nil)}
	var p *parallel.Panic
	if err := s.Add(t.Context(), x, y); !errors.As(err, &p) {
		t.Errorf("error %v, want that of a panic", err)
	}
}
