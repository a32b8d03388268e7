package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestEqualModelsOfDependentRows: of two fixed models that are equally accurate for a class on average, and differ by
// class, neither is shown to be better, however the rows depend on each other.
func TestEqualModelsOfDependentRows(t *testing.T) {
	const rows = 30_000
	for _, o := range orders {
		if o.rare {
			continue
		}
		passed, runs := 0, seeds(4, 100)
		for seed := range runs {
			r := rand.New(rand.NewPCG(seed, 5))
			gain := [orderClasses]float64{}
			for i, c := range r.Perm(orderClasses) {
				gain[c] = 0.1 * float64(1-2*(i%2)) // half of the classes are better by as much as the others are worse
			}
			test, sampling, drift := SequentialTest{Margin: 0.005}, LabelSequence{}, DriftDetector{}
			better := false
			o.rows(r, rows, func(class int, u float64) {
				right := func(recall float64) float64 {
					if u < recall {
						return 1
					}
					return 0
				}
				name := fmt.Sprint(class)
				row := sampling.Add(name)
				live := right(recalls[class] - 0.1)
				drift.Add(name, live)
				row.Effect = drift.Blocks.Effect()
				test.AddRow(right(recalls[class]-0.1+gain[class])-live, row)
				better = better || !(test.Value() < 1000)
			})
			if better {
				passed++
			}
		}
		t.Logf("%s: one of two equal models is taken for better in %d of %d runs", o.name, passed, runs)
		if most := math.Ceil(0.03 * float64(runs)); float64(passed) > most {
			t.Errorf("%s: in %d of %d runs one of two equal models is better", o.name, passed, runs)
		}
	}
}

// TestBetterModelOfDependentRows: a model that is better for every class is shown to be, also if labels come in runs.
func TestBetterModelOfDependentRows(t *testing.T) {
	for _, o := range []order{orders[0], orders[1], orders[2], orders[5]} {
		r := rand.New(rand.NewPCG(7, 5))
		test, sampling, drift := SequentialTest{Margin: 0.005}, LabelSequence{}, DriftDetector{}
		needed, n := 0, 0
		o.rows(r, 60_000, func(class int, u float64) {
			right := func(recall float64) float64 {
				if u < recall {
					return 1
				}
				return 0
			}
			name := fmt.Sprint(class)
			row := sampling.Add(name)
			live := right(recalls[class] - 0.2)
			drift.Add(name, live)
			row.Effect = drift.Blocks.Effect()
			test.AddRow(right(recalls[class])-live, row)
			if n++; needed == 0 && test.Value() >= 1000 {
				needed = n
			}
		})
		if needed == 0 || o.name == "independent" && needed > 300 {
			t.Errorf("%s: a model that is better by 20 points is shown to be after %d rows", o.name, needed)
		}
	}
}

// TestSampling: classes weigh alike, and none more than ten times its share of the rows; only labels in runs give
// a run several rows.
func TestSampling(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for _, o := range orders {
		var s LabelSequence
		weight, all, inRuns := map[int]float64{}, 0.0, 0
		o.rows(r, 20_000, func(class int, _ float64) {
			before := s.Count
			row := s.Add(fmt.Sprint(class))
			weight[class] += row.Weight
			all += row.Weight
			if row.RunStart < before {
				inRuns++
			}
		})
		for class, w := range weight {
			if share := s.Share(fmt.Sprint(class)); o.run <= 30 && !(w/all < 1.5*max(1./orderClasses, share)) {
				t.Errorf("%s: class %d has %.3f of the rows and weighs %.3f", o.name, class, share, w/all)
			}
		}
		independent := o.run < 2 && o.stay == 0 && o.copies < 2
		if s.HasRuns() == independent || independent && inRuns > 100 {
			t.Errorf("%s: runs %t, %d rows in runs", o.name, s.HasRuns(), inRuns)
		}
	}
}

// TestWrongLabelsEndNoRun: where labels come in runs, up to three rows of other classes belong to the run. Four end it
// where the first of them is, and three of one class in a row where they begin. In a random order each change of the
// class begins a run.
func TestWrongLabelsEndNoRun(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	var s LabelSequence
	begun, stray := 0, 0
	for n := range 6000 {
		class := n / 300 % orderClasses
		isWrong := r.IntN(10) == 0
		if isWrong {
			class = (class + 1 + r.IntN(orderClasses-1)) % orderClasses
		}
		row := s.Add(fmt.Sprint(class))
		if n < 300 { // few rows do not show that labels come in runs
			continue
		}
		if row.NewRun {
			begun++
		}
		if n%300 >= 10 && row.IsStray == isWrong {
			stray++
		}
	}
	if begun < 19 || begun > 25 || stray < 19*290*99/100 {
		t.Errorf("%d of 19 runs, and %d of %d rows are stray if and only if their label is wrong", begun, stray, 19*290)
	}
	for others, want := range map[string]Row{
		"bcb":  {RunStart: 20, IsStray: true},
		"bcbc": {RunStart: 100, NewRun: true},
		"bb":   {RunStart: 20},
		"bbb":  {RunStart: 100, NewRun: true},
		"bbcb": {RunStart: 100, NewRun: true},
		"bccc": {RunStart: 101, NewRun: true},
		"bcba": {RunStart: 20},
	} {
		s := LabelSequence{All: 100, Repeats: 90, Last: "a", Run: "a", Count: 100, RunStart: 20, ByChance: 0.5,
			Rows: map[string]float64{"a": 50, "b": 25, "c": 25}}
		var row Row
		for _, class := range others {
			row = s.Add(string(class))
		}
		if row.Weight = 0; row != want {
			t.Errorf("after rows of %s in a run of a: %+v, want %+v", others, row, want)
		}
	}
	var random LabelSequence
	last := -1
	for n := range 3000 {
		class := r.IntN(orderClasses)
		row := random.Add(fmt.Sprint(class))
		if n > 100 && (row.NewRun != (class != last) || row.IsStray || row.RunStart != n) {
			t.Fatalf("row %d of a random order: %+v", n, row)
		}
		last = class
	}
}

// TestShortRuns: where runs have two to four rows, no run lasts long, and only the first row of a run may be stray,
// also of a rare class: the drift detector watches all classes.
func TestShortRuns(t *testing.T) {
	for name, k := range map[string]struct {
		classOf func(n int) int
		length  int
	}{
		"2 rows, 8 classes": {func(n int) int { return n / 2 % 8 }, 2},
		"3 rows, 2 classes": {func(n int) int { return n / 3 % 2 }, 3},
		"3 rows, 8 classes": {func(n int) int { return n / 3 % 8 }, 3},
		"4 rows, 2 classes": {func(n int) int { return n / 4 % 2 }, 4},
		"a rare class": {func(n int) int {
			if n%300 >= 297 {
				return 9
			}
			return n / 300 % 5
		}, 3},
	} {
		var s LabelSequence
		rows, watched := map[int]int{}, map[int]int{}
		for n := range 6000 {
			row, class := s.Add(fmt.Sprint(k.classOf(n))), k.classOf(n)
			rows[class]++
			if !row.IsStray {
				watched[class]++
			}
			if begin := n - row.RunStart; n >= 300 && begin >= 300 {
				t.Fatalf("%s: at row %d the run began %d rows before", name, n, begin)
			}
		}
		for class, n := range rows {
			if !s.HasRuns() || watched[class]*k.length < n*(k.length-1)*95/100 {
				t.Errorf("%s: %d of %d rows of class %d are not stray", name, watched[class], n, class)
			}
		}
	}
}
