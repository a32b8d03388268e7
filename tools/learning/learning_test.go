package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

func opened(t *testing.T, name string, seed uint64) source {
	t.Helper()
	s, err := chosen(name)
	if err != nil {
		t.Fatal(err)
	}
	src, err := s[0].open(usualRows, seed)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// rowsOf returns the first messages of a stream as one.
func rowsOf(src source, messages int) *model.Data {
	all := &model.Data{}
	for range messages {
		d := src.next()
		all.X, all.Y, all.N, all.M = append(all.X, d.X...), append(all.Y, d.Y...), all.N+d.N, d.M
	}
	return all
}

func TestSameSeedSameStream(t *testing.T) {
	for _, s := range streams {
		one, again, other := rowsOf(opened(t, s.name, 1), 4), rowsOf(opened(t, s.name, 1), 4),
			rowsOf(opened(t, s.name, 2), 4)
		if !slices.Equal(one.X, again.X) || !slices.Equal(one.Y, again.Y) {
			t.Errorf("%s: the same seed gave another stream", s.name)
		}
		if slices.Equal(one.X, other.X) {
			t.Errorf("%s: another seed gave the same stream", s.name)
		}
	}
}

func TestRotationsAreOrthogonal(t *testing.T) {
	w := newWorld(1)
	for name, q := range map[string]*mat.Dense{
		"random": rotation(rand.New(rand.NewPCG(1, 1)), featureCount), "axes": w.axes,
	} {
		var product mat.Dense
		product.Mul(q, q.T())
		if !mat.EqualApprox(&product, stretch(featureCount, 0, 1), 1e-12) {
			t.Errorf("%s: Q Q' is not the identity", name)
		}
	}
	for name, c := range map[string]*concept{"rotated": w.rotated, "drifted": w.drifted(math.Pi / 2)} {
		var before, after mat.Dense
		before.Mul(w.base.means, w.base.means.T())
		after.Mul(c.means, c.means.T())
		if !mat.EqualApprox(&before, &after, 1e-9) || mat.EqualApprox(c.means, w.base.means, 0.1) {
			t.Errorf("%s: the means are not turned as a whole", name)
		}
		var covariance, turned mat.Dense
		covariance.Mul(w.base.spread.T(), w.base.spread)
		turned.Mul(c.spread.T(), c.spread)
		if !mat.EqualApprox(&covariance, &turned, 1e-9) {
			t.Errorf("%s: the noise is not turned as a whole", name)
		}
	}
	if still := w.drifted(0); !mat.EqualApprox(still.means, w.base.means, 1e-12) {
		t.Error("no angle turns the features")
	}
}

func TestConcepts(t *testing.T) {
	recurring, _ := chosen("recurring")
	if w := newWorld(1); recurring[0].concept(w, 1) != w.rotated {
		t.Error("the concept of the last checkpoint is not the last one")
	}
	for name, want := range map[string]string{ // which quarters have the first concept
		"stationary": "1111", "rotation": "1100", "means": "1100", "scale": "1100", "appears": "1100",
		"vanishes":  "1100",
		"imbalance": "1100", "noise": "1100", "recurring": "1010", "poison6": "1111", "poison20": "1111",
		"usps": "1100",
	} {
		src := opened(t, name, 1)
		got := ""
		for q := range 4 {
			got += map[bool]string{true: "1", false: "0"}[src.same(0, q*src.rows()/4)]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	// Half a right angle at half of the stream, and at most a right angle.
	w := newWorld(1)
	gradual, _ := chosen("gradual")
	for place, angle := range map[float64]float64{0: 0, 0.25: 0, 0.5: math.Pi / 4, 0.75: math.Pi / 2, 1: math.Pi / 2} {
		if !mat.EqualApprox(gradual[0].concept(w, place).means, w.drifted(angle).means, 1e-12) {
			t.Errorf("gradual drift at %g is not at %g", place, angle)
		}
	}
}

func TestOneFeatureIsScaled(t *testing.T) {
	w := newWorld(1)
	grown := 0
	for j := range featureCount {
		ratio := mat.Norm(w.scaled.spread.RowView(j), 2) / mat.Norm(w.base.spread.RowView(j), 2)
		switch {
		case math.Abs(ratio-1000) < 1e-6:
			grown++
		case math.Abs(ratio-1) > 1e-9:
			t.Errorf("feature %d grew by %g", j, ratio)
		}
	}
	if grown != 1 {
		t.Errorf("%d features grew", grown)
	}
}

// Poison changes neither features nor the shares of classes, only most labels.
func TestShuffledLabels(t *testing.T) {
	clean, poisoned := opened(t, "stationary", 1), opened(t, "poison6", 1)
	shuffled := 0
	for at := 0; at < 27_000; at += batchRows {
		d := poisoned.next()
		if at < 20_000 {
			if c := clean.next(); !slices.Equal(c.Y, d.Y) || !slices.Equal(c.X, d.X) {
				t.Fatalf("row %d is not that of the stationary stream", at)
			}
			continue
		}
		// The labels of the stream are those that belong to the class means: the nearest mean distinguishes true labels from
		// shuffled ones.
		right := 0
		means := newWorld(1).base.means
		for i, y := range d.Y {
			if nearestMean(means, d.X[i*d.M:(i+1)*d.M]) == y {
				right++
			}
		}
		share := float64(right) / float64(d.N)
		if inside := at < 26_000; inside != (share < 0.3) {
			t.Errorf("row %d: %.2f of the labels are those of the nearest mean", at, share)
		}
		if at < 26_000 {
			shuffled += d.N
		}
	}
	if shuffled != 6000 {
		t.Errorf("%d rows are shuffled", shuffled)
	}
	src := opened(t, "poison6", 1).(*generated)
	src.at = 20_000
	src.random = rand.New(rand.NewPCG(7, 7))
	d := src.next()
	want := src.world.base.draw(rand.New(rand.NewPCG(7, 7)), batchRows)
	sorted := func(y []int) []int { return slices.Sorted(slices.Values(y)) }
	if slices.Equal(d.Y, want.Y) || !slices.Equal(sorted(d.Y), sorted(want.Y)) {
		t.Error("shuffled labels are not the same labels in another order")
	}
}

func nearestMean(means *mat.Dense, x []float64) int {
	best, nearest := math.Inf(1), 0
	k, m := means.Dims()
	for c := range k {
		if d := distance(x, 0, means.RawRowView(c), 0, m); d < best {
			best, nearest = d, c
		}
	}
	return nearest
}

func TestShares(t *testing.T) {
	count := func(name string, from, to int) []int {
		src, n := opened(t, name, 1), make([]int, classCount)
		for at := 0; at < to; at += batchRows {
			for _, y := range src.next().Y {
				if at >= from {
					n[y]++
				}
			}
		}
		return n
	}
	last := classCount - 1
	if n := count("appears", 0, 20_000); n[last] != 0 {
		t.Errorf("the class that appears is there before: %v", n)
	}
	if n := count("appears", 20_000, 40_000); n[last] < 2300 || n[last] > 2700 {
		t.Errorf("the class that appears: %v", n)
	}
	if n := count("vanishes", 20_000, 40_000); n[last] != 0 {
		t.Errorf("the class that vanishes is there: %v", n)
	}
	if n := count("imbalance", 0, 40_000); n[last] < 15 || n[last] > 45 || n[0] < 5400 {
		t.Errorf("1:200: %v", n)
	}
}

// A tenth of the labels name another class, with equal probability.
func TestNoise(t *testing.T) {
	src := opened(t, "noise", 1).(*generated)
	wrong, named := 0, map[int]int{} // the difference between the named and the true class
	const messages = 80
	for k := range messages {
		src.random = rand.New(rand.NewPCG(7, uint64(k)))
		truth := src.concept(src.at).draw(rand.New(rand.NewPCG(7, uint64(k))), batchRows)
		d := src.next()
		if !slices.Equal(d.X, truth.X) {
			t.Fatal("the features are not those of the concept")
		}
		for i, y := range d.Y {
			if y != truth.Y[i] {
				wrong++
				named[(y-truth.Y[i]+classCount)%classCount]++
			}
		}
	}
	if share := float64(wrong) / (messages * batchRows); math.Abs(share-0.1) > 0.01 || len(named) != classCount-1 {
		t.Errorf("%.3f of the labels name another class, one of %d others", share, len(named))
	}
}

func TestDigits(t *testing.T) {
	all, err := images()
	if err != nil {
		t.Fatal(err)
	}
	if all.N != 9298 || slices.Min(all.X) != 0 || slices.Max(all.X) != 1 {
		t.Fatalf("%d images from %g to %g", all.N, slices.Min(all.X), slices.Max(all.X))
	}
	src := opened(t, "usps", 1).(*digits)
	first, second := src.stream[:uspsRows], src.stream[uspsRows:]
	if slices.Equal(first, second) || !slices.Equal(slices.Sorted(slices.Values(first)),
		slices.Sorted(slices.Values(second))) {
		t.Error("the turned images are not the upright ones in another order")
	}
	for _, i := range src.kept {
		if slices.Contains(first, i) {
			t.Fatalf("image %d is both in the stream and fresh", i)
		}
	}
	image := make([]float64, side*side)
	image[1] = 1 // top left, next to the corner: after a clockwise quarter turn it is at the right, below the corner
	once := quarter(image)
	if once[1*side+side-1] != 1 {
		t.Error("a quarter is not clockwise")
	}
	if !slices.Equal(quarter(quarter(quarter(once))), image) {
		t.Error("four quarters are not a whole turn")
	}
}

// identity is a model whose outputs are the centred features, except for order and signs.
func identity(t *testing.T, mean float64) *model.Model {
	t.Helper()
	d := &model.Data{X: []float64{mean - 2, 0, mean + 2, 0, mean, -1, mean, 1}, N: 4, M: 2}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "pca", Dim: 2, Scale: "none"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Scores on rows with known results.
func TestScores(t *testing.T) {
	ref := &model.Data{X: []float64{0, 0, 10, 0, 20, 0}, Y: []int{0, 1, 2}, N: 3, M: 2, Classes: classNames(3)}
	query := &model.Data{X: []float64{1, 0, 9, 1, 19, -1, 12, 0}, Y: []int{0, 1, 2, 2}, N: 4, M: 2,
		Classes: classNames(3)}
	here, there := identity(t, 0), identity(t, 10)
	if got, err := accuracy(t.Context(), here, ref, query); err != nil || got != 0.75 {
		t.Errorf("three of four are next to their class: %g, %v", got, err)
	}
	if got, err := storedAccuracy(t.Context(), here, here, ref, query); err != nil || got != 0.75 {
		t.Errorf("stored by the same model: %g, %v", got, err)
	}
	// In the coordinates of the first model the other one is 10 to the left: 0, 1 and 2 are classified as what is left of
	// them, and so is 12.
	if got, err := storedAccuracy(t.Context(), here, there, ref, query); err != nil || got != 0.25 {
		t.Errorf("stored by a model from which it is shifted: %g, %v", got, err)
	}
	// The queries are 1, sqrt 2, sqrt 2 and 2 from their neighbours, and move by 10.
	want := 40 / (1 + 2*math.Sqrt2 + 2)
	if got, err := displacement(t.Context(), here, there, ref, query); err != nil || math.Abs(got-want) > 1e-6 {
		t.Errorf("displacement %g, want %g (%v)", got, want, err)
	}
}

// The oracle chooses the window with the distribution of the fresh rows.
func TestOracle(t *testing.T) {
	w := newWorld(1)
	r := rand.New(rand.NewPCG(1, 1))
	var o oracle
	for i := range 32 {
		c := w.base
		if i >= 16 {
			c = w.rotated
		}
		if err := o.add(t.Context(), c.draw(r, batchRows)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := o.best(t.Context(), 16, 0, w.rotated.draw(r, freshRows), w.rotated.draw(r, freshRows))
	if err != nil {
		t.Fatal(err)
	}
	if m.Rows() < 8*batchRows || m.Rows() > 16*batchRows {
		t.Errorf("the best window has %d rows; the concept has %d", m.Rows(), 16*batchRows)
	}
}

func TestMeanOverRows(t *testing.T) {
	r := run{Rows: 2000, Checkpoints: []checkpoint{{Row: 500, Live: 0.2}, {Row: 1000, Live: 0.4}, {Row: 1250, Live: 1},
		{Row: 2000, Live: 5}}}
	// 250 rows at 0.2, 250 at 0.4, 250 at 1; the last checkpoint counts for no row.
	if got := r.mean(span{750, 1500}, live); math.Abs(float64(got)-1.6/3) > 1e-12 {
		t.Errorf("mean %g", got)
	}
	if got := r.mean(span{0, 400}, live); !math.IsNaN(float64(got)) {
		t.Errorf("rows before the first model have accuracy %g", got)
	}
	s := over([]figure{1, none, 3})
	if s.Mean != 2 || math.Abs(float64(s.Deviation)-math.Sqrt2) > 1e-12 || s.Least != 1 || s.Most != 3 {
		t.Errorf("%+v", s)
	}
}

func TestSpans(t *testing.T) {
	for name, want := range map[string][2][]span{
		"rotation": {{{20_000, 25_000}}, {{25_000, 30_000}}},
		"means":    {{{20_000, 25_000}}, {{23_500, 28_500}}},
		"gradual":  {{{10_000, 30_000}}, {{35_000, 40_000}}},
		"recurring": {{{10_000, 15_000}, {20_000, 25_000}, {30_000, 35_000}},
			{{15_000, 20_000}, {25_000, 30_000}, {35_000, 40_000}}},
		"poison20":   {{{15_000, 35_000}}, {{38_500, 40_000}}},
		"stationary": {{{10_000, 15_000}}, {{13_500, 18_500}}},
	} {
		s, _ := chosen(name)
		if early, settled := s[0].spans(usualRows); !slices.Equal(early, want[0]) || !slices.Equal(settled, want[1]) {
			t.Errorf("%s: %v and %v", name, early, settled)
		}
	}
}

// Each bound fails if and only if its figure is beyond it.
func TestBounds(t *testing.T) {
	promoted := func(lost ...figure) []promotion {
		var all []promotion
		for i, l := range lost {
			all = append(all, promotion{Row: 30_000 + i, Before: 0.7, After: 0.7 - l, Stored: 0.7 - l, Moved: 0.1})
		}
		return all
	}
	failing := func(name string, r run) []string {
		s, err := chosen(name)
		if err != nil {
			t.Fatal(err)
		}
		r.Rows = usualRows
		var what []string
		for _, b := range bounds([]*figures{summarise(s[0], []run{r})}) {
			if !b.Holds {
				what = append(what, b.What)
			}
		}
		return what
	}
	flat := func(gap figure) []checkpoint {
		return []checkpoint{{Row: 5000, Live: 0.7 - gap, Oracle: 0.7, Loss: gap}}
	}
	moved := promoted(0)
	moved[0].Moved = 0.13
	stored := promoted(0)
	stored[0].Stored = 0.68
	for _, c := range []struct {
		name, stream string
		run          run
		want         int
	}{
		{"well", "stationary", run{Checkpoints: flat(0), Promotions: promoted(0)}, 0},
		{"two swaps", "stationary", run{Checkpoints: flat(0), Promotions: promoted(0, 0)}, 1},
		{"a probe moves", "stationary", run{Checkpoints: flat(0), Promotions: moved}, 1},
		{"stored coordinates", "stationary", run{Checkpoints: flat(0), Promotions: stored}, 1},
		{"a promotion loses 1.5", "rotation", run{Checkpoints: flat(0), Promotions: promoted(0.015)}, 1},
		{"a promotion loses 3", "rotation", run{Checkpoints: flat(0), Promotions: promoted(0.03)}, 2},
		{"5 below", "rotation", run{Checkpoints: flat(0.05)}, 1},
		{"7 below", "rotation", run{Checkpoints: flat(0.07)}, 2},
		{"7 below with noise", "noise", run{Checkpoints: flat(0.07)}, 1},
		{"poison costs 2", "poison6", run{Checkpoints: flat(0.02)}, 0},
		{"poison costs 4", "poison6", run{Checkpoints: flat(0.04)}, 1},
	} {
		if got := failing(c.stream, c.run); len(got) != c.want {
			t.Errorf("%s: %d bounds fail, want %d: %v", c.name, len(got), c.want, got)
		}
	}
}

// A run is a function of its seed. It uses the library as a host does.
func TestFollow(t *testing.T) {
	if testing.Short() {
		t.Skip("two runs of 10,000 rows")
	}
	s, _ := chosen("rotation")
	var texts []string
	for range 2 {
		r, err := follow(t.Context(), s[0], 10_000, 1, options{method: method}.fit())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
		last := r.Checkpoints[len(r.Checkpoints)-1]
		if r.First == 0 || last.Row != 10_000 || last.Frozen > 0.4 || last.Oracle < 0.6 ||
			!slices.Equal(r.Widths, []int{7}) {
			t.Errorf("first model after %d rows, widths %v, at the end %+v", r.First, r.Widths, last)
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("two runs of one seed differ:\n%s\n%s", texts[0], texts[1])
	}
}
