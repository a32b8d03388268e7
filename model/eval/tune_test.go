package eval

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/internal/fixture"
)

// spiral returns n rows on a band rolled up in the plane, in classes by their position along it. Its turns are close to
// each other: a graph with many neighbours joins them.
func spiral(n, classes int) *model.Data {
	d := &model.Data{N: n, M: 2}
	for c := range classes {
		d.Classes = append(d.Classes, string(rune('a'+c)))
	}
	for i := range n {
		s := math.Sqrt(float64(i+1) / float64(n)) // equal steps along the arc
		angle := 5 * math.Pi * s
		d.X = append(d.X, angle*math.Cos(angle), angle*math.Sin(angle))
		d.Y = append(d.Y, i*classes/n)
	}
	return d
}

// A graph with few neighbours unrolls the spiral; the default and more do not. Tuning finds that out, and fixed
// parameters stay.
func TestTuneFindsNeighbours(t *testing.T) {
	d := spiral(240, 8)
	c := Config{Methods: []string{"isomap"}, Dims: []int{1}, Scale: model.ScaleNone, Splits: 3, Seed: 1}
	plain := evaluate(t, d, c)[0]
	c.Tune = true
	tuned := evaluate(t, d, c)[0]
	t.Logf("default %.3f, tuned %.3f by %v", plain.AccuracyMean, tuned.AccuracyMean, tuned.Tuned)
	if !(plain.AccuracyMean <= 0.8) || !(tuned.AccuracyMean >= 0.9) ||
		!maps.Equal(tuned.Tuned, map[string]int{"k=5": 3}) || tuned.Params["k"] != "5" {
		t.Errorf("default: %+v\ntuned: %+v", plain, tuned)
	}
	if again := evaluate(t, d, c)[0]; again.AccuracyMean != tuned.AccuracyMean ||
		!maps.Equal(again.Tuned, tuned.Tuned) {
		t.Error("a second run differs")
	}
	c.Params = map[string]map[string]string{"isomap": {"k": "10"}}
	if given := evaluate(t, d, c)[0]; given.Params["k"] != "10" || given.Tuned != nil ||
		given.AccuracyMean != plain.AccuracyMean {
		t.Errorf("k given: %+v", given)
	}
}

// The choice uses nothing of the test rows: with other values and labels there it is the same, and the score is
// another.
func TestTuneTrainingPartOnly(t *testing.T) {
	d := *fixture.Dataset(t, "wine")
	c := Config{Methods: []string{"lpp", "dla"}, Dims: []int{1, 3}, Scale: model.ScaleMinMax, Splits: 1, Seed: 3,
		Tune: true}.withDefaults()
	choose := func(d *model.Data) (chosen []map[string]int, scores []float64) {
		splits, err := c.splits(fixture.Dataset(t, "wine").Y)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range c.Methods {
			for _, dim := range c.Dims {
				r := Result{Method: name, Dim: dim}
				score, err := c.score(t.Context(), d, &splits[0], &r, tally{map[int]int{}, map[int]int{}}, func(float64) {})
				if err != nil {
					t.Fatal(err)
				}
				chosen, scores = append(chosen, r.Tuned), append(scores, score)
			}
		}
		return chosen, scores
	}
	before, scores := choose(&d)
	splits, _ := c.splits(d.Y)
	d.X, d.Y = slices.Clone(d.X), slices.Clone(d.Y)
	for _, i := range splits[0].test {
		d.Y[i] = (d.Y[i] + 1) % len(d.Classes)
		for j := range d.M {
			d.X[i*d.M+j] *= -3
		}
	}
	after, others := choose(&d)
	for i := range before {
		if !maps.Equal(before[i], after[i]) {
			t.Errorf("the choice went from %v to %v", before[i], after[i])
		}
		if scores[i] == others[i] {
			t.Errorf("the scores are equal, %g: the test rows did not count", scores[i])
		}
	}
}

// Ties go to the defaults: here classes that every method separates.
func TestTuneTies(t *testing.T) {
	d := &model.Data{N: 80, M: 3, Classes: []string{"a", "b"}}
	for i := range d.N {
		d.X = append(d.X, float64(100*(i%2))+math.Sin(float64(i)), math.Cos(float64(3*i)), math.Sin(float64(7*i)))
		d.Y = append(d.Y, i%2)
	}
	for _, r := range evaluate(t, d, Config{Methods: []string{"mfa", "dla", "lda"}, Dims: []int{1}, Splits: 2,
		Tune: true}) {
		want := map[string]map[string]int{"mfa": {"k1=5 k2=20": 2}, "dla": {"k1=5 k2=10 beta=auto": 2}}[r.Method]
		if !maps.Equal(r.Tuned, want) || r.AccuracyMean != 1 {
			t.Errorf("%s: %v, accuracy %g", r.Method, r.Tuned, r.AccuracyMean)
		}
	}
}

// Two clusters far apart need k > 10 for one graph: with components=error less
// cannot be fitted in a fold, and is no candidate.
func TestTuneLeavesFailuresOut(t *testing.T) {
	d := &model.Data{N: 30, M: 2, Classes: []string{"a", "b"}}
	for i := range d.N {
		d.X = append(d.X, float64(1000*(i%2))+math.Sin(float64(i)), math.Cos(float64(3*i)))
		d.Y = append(d.Y, i%2)
	}
	c := Config{Dims: []int{1}, Scale: model.ScaleNone, Tune: true,
		Params: map[string]map[string]string{"isomap": {"components": "error"}}}.withDefaults()
	one := fit.Config{Method: "isomap", Scale: model.ScaleNone, Params: c.Params["isomap"]}
	chosen, err := fit.Tune(t.Context(), d, one, c.Dims, func(float64) {})
	if err != nil || chosen[1][0]["k"] != "15" || chosen[1][0]["components"] != "error" {
		t.Errorf("%v, %v", chosen, err)
	}
	few := d.Subset([]int{0, 1, 2, 3})
	if chosen, err = fit.Tune(t.Context(), few, one, c.Dims, func(float64) {}); err != nil ||
		chosen[1][0]["k"] != "10" {
		t.Errorf("no row to hold out: %v, %v", chosen, err)
	}
}

// TestTuneTakesTheNext: five neighbours unroll the spiral in every fold, where a cluster in line with its end has fewer
// than six rows. On all training rows it has six, which list only each other, and components=error refuses that graph:
// the next combination replaces it.
func TestTuneTakesTheNext(t *testing.T) {
	d := spiral(240, 8)
	d.Classes = append(d.Classes, "z")
	for i := range 12 {
		d.N++
		d.X = append(d.X, -40, 0.01*float64(i))
		d.Y = append(d.Y, 8)
	}
	params := map[string]string{"components": "error"}
	c := Config{Methods: []string{"isomap"}, Dims: []int{1}, Scale: model.ScaleNone, Splits: 1, Seed: 1, Tune: true,
		Params: map[string]map[string]string{"isomap": params}}.withDefaults()
	splits, err := c.splits(d.Y)
	if err != nil {
		t.Fatal(err)
	}
	train := d.Subset(splits[0].train)
	one := fit.Config{Method: "isomap", Dim: 1, Scale: model.ScaleNone, Seed: 1, Params: params}
	chosen, err := fit.Tune(t.Context(), train, one, c.Dims, func(float64) {})
	if err != nil || len(chosen[1]) < 2 || chosen[1][0]["k"] != "5" {
		t.Fatalf("%v, %v: the best combination is not k=5", chosen, err)
	}
	one.Params = chosen[1][0]
	if _, err := fit.Fit(t.Context(), train, one); err == nil {
		t.Fatal("the best combination can be fitted on all training rows")
	}
	if r := evaluate(t, d, c)[0]; r.Error != "" || r.Params["k"] != chosen[1][1]["k"] {
		t.Errorf("%s: parameters %v, want those of %v", r.Error, r.Params, chosen[1][1])
	}
}

func TestTuneStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	last := 0.0
	c := Config{Methods: []string{"lpp"}, Tune: true, Splits: 2, Progress: func(_ string, _ int, done float64) {
		if !(done >= last) || !(done <= 1) {
			t.Errorf("progress went from %g to %g", last, done)
		}
		if last = done; done > 0.3 {
			cancel()
		}
	}}
	if err := Evaluate(ctx, fixture.Dataset(t, "wine"), c, func(Result) error { return nil }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if !(last >= 0.3) || !(last <= 0.32) {
		t.Errorf("it continued to %g", last)
	}
	if err := (Config{Methods: []string{"lpp"}, Dims: []int{fit.AutoDim}, Tune: true}).Validate(); err == nil {
		t.Error("tuning and AutoDim: no error")
	}
}

func TestTunedJSON(t *testing.T) {
	b, _ := json.Marshal(Result{Tuned: map[string]int{"k=5": 3}})
	if s := string(b); !strings.Contains(s, `"tuned":{"k=5":3}`) {
		t.Errorf("form is %s", s)
	}
}
