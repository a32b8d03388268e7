package pencil

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/parallel"
)

// broken is an operator whose products panic from the tenth on.
type broken struct {
	Entries
	left int
	how  func(dst, x *mat.Dense)
}

func (b *broken) Apply(ctx context.Context, dst, x *mat.Dense) {
	if b.left--; b.left > 0 {
		b.Entries.Apply(ctx, dst, x)
		return
	}
	b.how(dst, x)
}

// TestPanicOfAnOperatorIsAnError of Partial, in the goroutine that applies it and
// in the pool that a product runs on.
func TestPanicOfAnOperatorIsAnError(t *testing.T) {
	const n = 300
	s := withSpectrum(spectrumOf(n, func(i int) float64 { return float64(i + 1) }), 3)
	for name, how := range map[string]func(dst, x *mat.Dense){
		"caller": func(dst, x *mat.Dense) { panic("no product") },
		"pool":   func(dst, x *mat.Dense) { Dense(s).Apply(t.Context(), mat.NewDense(1, 1, nil), x) },
	} {
		m := &broken{Entries: Dense(s), left: 10, how: how}
		_, err := Partial(context.Background(), m, Max, 3, nil)
		var p *parallel.Panic
		if !errors.As(err, &p) || m.left > 0 || !strings.HasPrefix(err.Error(), "eigenvectors: panicked: ") {
			t.Errorf("%s: error %v, want that of a panic", name, err)
		}
	}
}

// TestPanicOfANumeratorIsAnError of Solve: its matrix is one of the caller's.
func TestPanicOfANumeratorIsAnError(t *testing.T) {
	var p *parallel.Panic
	if _, err := Solve(t.Context(), hollow{}, Identity(4), Max, 1); !errors.As(err, &p) {
		t.Errorf("error %v, want that of a panic", err)
	}
}

// hollow is a symmetric matrix without entries.
type hollow struct{ mat.Symmetric }

func (hollow) SymmetricDim() int { return 4 }
