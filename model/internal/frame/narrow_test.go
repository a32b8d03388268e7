package frame

import (
	"math"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
)

// outputsOf returns n values: the first few are outliers of 1, the others are evenly spaced over a width about 0.
func outputsOf(n, outliers int, width float64) []float64 {
	y := make([]float64, n)
	for i := range y {
		y[i] = width * (float64(i)/float64(n-1) - 0.5)
		if i < outliers {
			y[i] = 1
		}
	}
	return y
}

func TestParticipation(t *testing.T) {
	even := make([]float64, 1000)
	for i := range even {
		even[i] = float64(1 - 2*(i%2))
	}
	tiny := outputsOf(1000, 0, 1e-200) // fourth powers underflow
	// share is the ratio if a share p of the rows is 1 and the others 0.
	share := func(p float64) float64 { return p * (1 - p) / (1 - 3*p*(1-p)) }
	for _, c := range []struct {
		name string
		y    []float64
		want float64
	}{
		{"two equal halves", even, 1},
		{"evenly spaced", outputsOf(1000, 0, 1), 5. / 9},
		{"evenly spaced, tiny", tiny, 5. / 9},
		{"one row of 1000", outputsOf(1000, 1, 0), share(0.001)},
		{"ten rows of 1000", outputsOf(1000, 10, 0), share(0.01)},
		{"constant", make([]float64, 10), 0},
	} {
		if got := participation(c.y); !(math.Abs(got-c.want) <= 1e-4*c.want) {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
	shifted := outputsOf(1000, 10, 0.1)
	before := participation(shifted)
	for i := range shifted {
		shifted[i] += 7
	}
	if got := participation(shifted); !(math.Abs(got-before) <= 1e-9) {
		t.Errorf("about another mean: %g, was %g", got, before)
	}
}

func TestQuartiles(t *testing.T) {
	// numpy: np.subtract(*np.percentile(y, [75, 25])) / np.abs(y).max()
	for _, c := range []struct {
		y    []float64
		want float64
	}{
		{[]float64{0, 1, 2, 3, 4}, 0.5},
		{[]float64{3, 0, 2, 1}, 0.5},
		{[]float64{-8, 1, 2, 3, 4, 5}, 0.3125},
		{outputsOf(1001, 0, 1), 1},
	} {
		if got := quartiles(c.y); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("%v: %g, want %g", c.y[:4], got, c.want)
		}
	}
}

// A note names the outputs that are on the wrong side of one of the two limits, and no other.
func TestNoteNarrow(t *testing.T) {
	const n = 1000
	columns := [][]float64{
		outputsOf(n, 0, 1),     // 1: even
		outputsOf(n, 5, 0.01),  // 2: five outliers
		outputsOf(n, 1, 0.12),  // 3: an interquartile range of 0.06, but a participation ratio of 0.0048
		outputsOf(n, 15, 0.2),  // 4: neither limit
		make([]float64, n),     // 5: constant
		outputsOf(n, 200, 0),   // 6: a fifth of the rows, the others are equal
		outputsOf(n, 15, 0.07), // 7: an interquartile range of 0.035, and a participation ratio of 0.018
	}
	y := make([]float64, 0, n*len(columns))
	for i := range n {
		for _, column := range columns {
			y = append(y, column[i])
		}
	}
	task := &Task{Report: &model.Report{}}
	noteNarrow(task, y, len(columns))
	if notes := task.Report.Notes; len(notes) != 1 || !strings.HasPrefix(notes[0], "output 2, 3, 6, 7 of 7 hardly "+
		"differs between most of the 1000 rows") {
		t.Errorf("notes %q", notes)
	}
	task = &Task{Report: &model.Report{}}
	if noteNarrow(task, columns[0], 1); len(task.Report.Notes) != 0 {
		t.Errorf("an even output has the note %q", task.Report.Notes)
	}
}
