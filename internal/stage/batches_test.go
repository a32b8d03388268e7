package stage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestBatchesOfAMessage: a message of several batches gets the outputs of its rows, batch by batch, and bad rows are
// rejected in the batch that they are in.
func TestBatchesOfAMessage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	data := dataOf(clouds(r, 300, 3))
	for i := range data.X {
		data.X[i] /= 1000 // a unit of the outputs is a small part of a feature
	}
	fixed, err := fit.Fit(t.Context(), data, fit.Config{Method: "pca", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, func(c *spec.Config) { c.Fixed, c.Nulls = fixed, spec.NullsReject })
	parts := [][]row{clouds(r, 7, 3), clouds(r, 1, 1), clouds(r, 90, 2)}
	parts[2][20].x[1], parts[2][40].x[1] = math.MaxFloat32, float32(math.NaN())
	a, b, c := recordOf(memory.DefaultAllocator, parts[0]), recordOf(memory.DefaultAllocator, parts[1]),
		recordOf(memory.DefaultAllocator, parts[2])
	body, err := arrowio.FromRecords(a.Schema(), a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	message, err := s.Decode(body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Transform(t.Context(), message)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Reduced.Y) != len(parts) {
		t.Fatalf("outputs of %d batches, want %d", len(got.Reduced.Y), len(parts))
	}
	for k, rows := range parts {
		for i, alone := range rows {
			if k == 2 && (i == 20 || i == 40) {
				continue
			}
			want, err := s.Transform(t.Context(), decode(t, s, []row{alone}))
			if err != nil {
				t.Fatal(err)
			}
			if y := got.Reduced.Y[k][2*i : 2*i+2]; !slices.Equal(y, want.Reduced.Y[0]) {
				t.Errorf("batch %d, row %d: %v, alone %v", k, i, y, want.Reduced.Y[0])
			}
		}
	}
	if fmt.Sprint(got.Rejected) != "[[] [] [20 40]]" {
		t.Errorf("rejected are %v", got.Rejected)
	}
}
