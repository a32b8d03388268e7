package stage

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/stage/policy"
	"github.com/embedd/embedd/plugin/spec"
)

// TestDoors: every promotion names its door, each door of the gate can be closed, and a candidate that may not use one
// has to pass another.
func TestDoors(t *testing.T) {
	const first, better, moreRows, newClass = policy.DoorFirst, policy.DoorBetter, policy.DoorMoreRows,
		policy.DoorNewClass
	never := math.Inf(1)
	steady := func(r *rand.Rand) []row { return clouds(r, 2000, 3) }
	extended := func(r *rand.Rand) []row { return append(clouds(r, 500, 2), clouds(r, 1500, 3)...) }
	turned := func(r *rand.Rand) []row {
		rows := clouds(r, 1500, 4)
		for i := range rows[1000:] {
			x := rows[1000+i].x
			rows[1000+i].x = slices.Concat(x[2:4], []float32{-x[4]}, x[5:], x[:2])
		}
		return rows
	}
	for _, c := range []struct {
		name string
		rows func(*rand.Rand) []row
		gate spec.Gate
		want []string // the doors of all promotions, in the order of their names
	}{
		{"default", steady, spec.Gate{}, []string{first, moreRows}},
		{"never first", steady, spec.Gate{NeverFirst: true}, nil},
		{"only better", steady, spec.Gate{MoreRows: never, NewClass: never}, []string{first}},
		{"more evidence than there is", steady, spec.Gate{MoreRows: 1e12}, []string{first}},
		{"a change", turned, spec.Gate{MoreRows: never}, []string{better, first}},
		{"never better", turned, spec.Gate{Evidence: never, MoreRows: never}, []string{first}},
		{"a new class", extended, spec.Gate{MoreRows: never}, []string{first, newClass}},
		{"a new class that has to be better", extended, spec.Gate{MoreRows: never, NewClass: never},
			[]string{better, first}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var doors []string
			s := newStage(t, func(s *spec.Config) {
				s.Training.Every.Rows, s.Training.Gate = 60, c.gate
				s.Store = func(_ context.Context, r *spec.Release) (string, error) {
					doors = append(doors, r.Door)
					return r.Model.Digest()[:16], nil
				}
			})
			learnRows(t, s, 1, c.rows(rand.New(rand.NewPCG(3, 5))))
			st := s.Status()
			slices.Sort(doors)
			if got := slices.Compact(doors); !slices.Equal(got, c.want) {
				t.Errorf("doors %v, want %v; evidence %g of %g at %q", got, c.want, st.Evidence, st.EvidenceRequired, st.Door)
			}
			if c.want == nil && (s.Live() != nil || st.Hint == "") {
				t.Errorf("no first model may go live, and the hint is %q", st.Hint)
			}
		})
	}
}
