package stage

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/plugin/spec"
)

// TestReusedMemory: messages in reused memory are the same as in new memory, whatever it contained.
func TestReusedMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	fixed, err := fit.Fit(t.Context(), dataOf(clouds(r, 300, 3)), fit.Config{Method: "pca", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, nulls := range []spec.Nulls{spec.NullsReject, spec.NullsSkip, spec.NullsImpute} {
		for _, out := range []arrowio.Output{{}, {Columns: true}, {Compression: "lz4"}} {
			stage := func() *Stage {
				return newStage(t, func(c *spec.Config) { c.Fixed, c.Nulls, c.Output = fixed, nulls, out })
			}
			reuses, fresh := stage(), stage()
			for range 25 {
				rows := clouds(r, []int{2, 60, 90, 700, 1000}[r.IntN(5)], 3)
				for range r.IntN(4) {
					bad := []float32{float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32}[r.IntN(3)]
					rows[r.IntN(len(rows))].x[r.IntN(testFeatures)] = bad
				}
				limit := []int{2000, 1 << 20}[r.IntN(2)]
				answer := func(s *Stage) (*spec.Result, [][]byte) {
					t.Helper()
					result, err := s.Transform(t.Context(), decode(t, s, rows))
					if err != nil {
						t.Fatal(err)
					}
					parts, err := s.Split(result, limit, func(int, int) []wire.Pair { return nil })
					if err != nil {
						t.Fatal(err)
					}
					return result, parts
				}
				_, want := answer(fresh)
				result, have := answer(reuses)
				for i, body := range have {
					if !bytes.Equal(body, want[i]) || len(have) != len(want) {
						t.Fatalf("%v %+v: part %d of %d differs in reused memory", nulls, out, i, len(have))
					}
					if n := cap(want[i]); cap(body) > n+n/8 {
						t.Fatalf("%d bytes in memory of %d, which is asked for where there are %d: what messages take is counted by "+
							"their length",
							len(body), cap(body), n)
					}
					for k := range body {
						body[k] = 0xff
					}
				}
				for _, y := range result.Reduced.Y {
					for k := range y {
						y[k] = float32(math.NaN())
					}
				}
				reuses.Release(result)
				reuses.Reuse(have...)
			}
		}
	}
}
