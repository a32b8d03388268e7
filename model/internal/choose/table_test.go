package choose

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
)

// A row counts once however many rounds score it: the same rows in four rounds have the error bar of one round.
func TestTableCountsRowsOnce(t *testing.T) {
	m, err := method.Find("mfa")
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	right := [2][]int{}
	for i := range right {
		for range 200 {
			right[i] = append(right[i], draw.IntN(2))
		}
	}
	tables := map[int][]model.Score{}
	for n, rounds := range map[int]int{200: 4, 501: 1} {
		s := &selection{v: &validator{rows: &frame.Rows{N: n}}}
		e := &candidate{method: m, dims: []int{2, 5}}
		e.reset(false)
		for i, d := range e.dims {
			e.nearestCounts[d] = make([]int, 200)
			for row, v := range right[i] {
				e.nearestCounts[d][row] = rounds * v
				e.score[d].Correct += float64(rounds * v)
			}
			e.score[d].Scored = rounds * 200
		}
		s.candidates = []*candidate{e}
		tables[rounds] = s.table(s.scores(), *e.score[2], 2)
	}
	for i, x := range tables[1] {
		y := tables[4][i]
		if x.Scored != 200 || x.Scored != y.Scored || x.Correct != y.Correct || x.Dim != y.Dim ||
			!(math.Abs(x.Behind-y.Behind) <= 1e-12) || !(math.Abs(x.BehindError-y.BehindError) <= 1e-12) {
			t.Errorf("%+v of one round, %+v of four", x, y)
		}
	}
	// About half of the rows differ, by one each: the standard deviation of a difference is the root of a half.
	first, second := tables[1][0], tables[1][1]
	if first.Dim != 2 || first.Behind != 0 || first.BehindError != 0 ||
		!(math.Abs(second.Behind-(first.Correct-second.Correct)/200) <= 1e-12) ||
		!(math.Abs(second.BehindError-math.Sqrt(0.5/200)) <= 0.01) {
		t.Errorf("%+v, %+v", first, second)
	}
}

// Where it is not known which rows are correct, the error is that of different rows. No share and no error is NaN.
func TestUnpairedDifference(t *testing.T) {
	for _, c := range []struct {
		x, y            model.Score
		more, deviation float64
	}{
		{model.Score{Correct: 50, Scored: 100}, model.Score{Correct: 50, Scored: 100}, 0, math.Sqrt(0.005)},
		{model.Score{Correct: 100, Scored: 100}, model.Score{Correct: 80, Scored: 100}, 0.2, 0.04},
		{model.Score{Correct: 100, Scored: 100}, model.Score{}, 0, 0},
		{model.Score{}, model.Score{}, 0, 0},
	} {
		more, deviation := unpaired(c.x, c.y)
		if !(math.Abs(more-c.more) <= 1e-12) || !(math.Abs(deviation-c.deviation) <= 1e-12) {
			t.Errorf("%+v less %+v: %g +- %g, want %g +- %g", c.x, c.y, more, deviation, c.more, c.deviation)
		}
	}
}
