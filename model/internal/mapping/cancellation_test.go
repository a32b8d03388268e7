package mapping_test

import (
	"context"
	"testing"

	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/mapping"
)

// TestEndOfTheContext: what is computed of all pairs of rows ends with the error of the context.
func TestEndOfTheContext(t *testing.T) {
	rows, origin := []float64{0, 1, 2, 3, 4, 5, 6, 7}, []float64{0, 0}
	for _, name := range []string{"gauss", "chi2"} {
		fixture.EndsWithItsContext(t, name, func(ctx context.Context) error {
			k, err := mapping.NewKernel(ctx, name, rows, 2, origin)
			if err == nil && k.Param[0] == 1 {
				t.Errorf("%s has no parameter", name)
			}
			return err
		})
	}
	fixture.EndsWithItsContext(t, "kernel matrix", func(ctx context.Context) error {
		_, err := (mapping.Kernel{Name: "linear"}).Gram(ctx, rows, 2)
		return err
	})
}
