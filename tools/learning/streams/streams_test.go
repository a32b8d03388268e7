package streams

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

func opened(t *testing.T, name string, seed uint64) Source {
	t.Helper()
	s, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	src, err := s.Open(0, seed)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// rowsOf returns the first messages of a stream as one.
func rowsOf(src Source, messages int) *model.Data {
	all := &model.Data{}
	for range messages {
		d := src.Next()
		all.X, all.Y, all.N, all.M = append(all.X, d.X...), append(all.Y, d.Y...), all.N+d.N, d.M
	}
	return all
}

func TestSameSeedSameStream(t *testing.T) {
	for _, s := range Abrupt {
		one, again, other := rowsOf(opened(t, s.Name, 1), 4), rowsOf(opened(t, s.Name, 1), 4),
			rowsOf(opened(t, s.Name, 2), 4)
		if !slices.Equal(one.X, again.X) || !slices.Equal(one.Y, again.Y) {
			t.Errorf("%s: the same seed gave another stream", s.Name)
		}
		if slices.Equal(one.X, other.X) {
			t.Errorf("%s: another seed gave the same stream", s.Name)
		}
	}
}

func TestRotationsAreOrthogonal(t *testing.T) {
	w := NewWorld(1, Usual)
	for name, q := range map[string]*mat.Dense{
		"random": rotation(rand.New(rand.NewPCG(1, 1)), Usual.Features), "axes": w.axes,
	} {
		var product mat.Dense
		product.Mul(q, q.T())
		if !mat.EqualApprox(&product, stretch(Usual.Features, 0, 1), 1e-12) {
			t.Errorf("%s: Q Q' is not the identity", name)
		}
	}
	for name, c := range map[string]*Concept{"rotated": w.Rotated, "drifted": w.drifted(math.Pi / 2)} {
		var before, after mat.Dense
		before.Mul(w.Base.means, w.Base.means.T())
		after.Mul(c.means, c.means.T())
		if !mat.EqualApprox(&before, &after, 1e-9) || mat.EqualApprox(c.means, w.Base.means, 0.1) {
			t.Errorf("%s: the means are not turned as a whole", name)
		}
		var covariance, turned mat.Dense
		covariance.Mul(w.Base.spread.T(), w.Base.spread)
		turned.Mul(c.spread.T(), c.spread)
		if !mat.EqualApprox(&covariance, &turned, 1e-9) {
			t.Errorf("%s: the noise is not turned as a whole", name)
		}
	}
	if still := w.drifted(0); !mat.EqualApprox(still.means, w.Base.means, 1e-12) {
		t.Error("no angle turns the features")
	}
}

func TestConcepts(t *testing.T) {
	recurring, _ := Named("recurring")
	if w := NewWorld(1, Usual); recurring.concept(w, UsualRows, UsualRows) != w.Rotated {
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
			got += map[bool]string{true: "1", false: "0"}[src.IsSame(0, q*src.Rows()/4)]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	// Half a right angle at half of the stream, and at most a right angle.
	w := NewWorld(1, Usual)
	gradual, _ := Named("gradual")
	for place, angle := range map[float64]float64{0: 0, 0.25: 0, 0.5: math.Pi / 4, 0.75: math.Pi / 2, 1: math.Pi / 2} {
		if !mat.EqualApprox(gradual.concept(w, int(place*UsualRows), UsualRows).means, w.drifted(angle).means, 1e-12) {
			t.Errorf("gradual drift at %g is not at %g", place, angle)
		}
	}
}

func TestOneFeatureIsScaled(t *testing.T) {
	w := NewWorld(1, Usual)
	grown := 0
	for j := range Usual.Features {
		ratio := mat.Norm(w.scaled.spread.RowView(j), 2) / mat.Norm(w.Base.spread.RowView(j), 2)
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
	for at := 0; at < 27_000; at += BatchRows {
		d := poisoned.Next()
		if at < 20_000 {
			if c := clean.Next(); !slices.Equal(c.Y, d.Y) || !slices.Equal(c.X, d.X) {
				t.Fatalf("row %d is not that of the stationary stream", at)
			}
			continue
		}
		// The labels of the stream are those that belong to the class means: the nearest mean distinguishes true labels from
		// shuffled ones.
		right := 0
		means := NewWorld(1, Usual).Base.means
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
	src := opened(t, "poison6", 1).(*generatedStream)
	src.at = 20_000
	src.random = rand.New(rand.NewPCG(7, 7))
	d := src.Next()
	want := src.world.Base.Draw(rand.New(rand.NewPCG(7, 7)), BatchRows)
	sorted := func(y []int) []int { return slices.Sorted(slices.Values(y)) }
	if slices.Equal(d.Y, want.Y) || !slices.Equal(sorted(d.Y), sorted(want.Y)) {
		t.Error("shuffled labels are not the same labels in another order")
	}
}

func nearestMean(means *mat.Dense, x []float64) int {
	best, nearest := math.Inf(1), 0
	k, _ := means.Dims()
	for c := range k {
		if d := floats.Distance(means.RawRowView(c), x, 2); d < best {
			best, nearest = d, c
		}
	}
	return nearest
}

func TestShares(t *testing.T) {
	count := func(name string, from, to int) []int {
		src, n := opened(t, name, 1), make([]int, Usual.Classes)
		for at := 0; at < to; at += BatchRows {
			for _, y := range src.Next().Y {
				if at >= from {
					n[y]++
				}
			}
		}
		return n
	}
	last := Usual.Classes - 1
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
	src := opened(t, "noise", 1).(*generatedStream)
	wrong, named := 0, map[int]int{} // the difference between the named and the true class
	const messages = 80
	for k := range messages {
		src.random = rand.New(rand.NewPCG(7, uint64(k)))
		truth := src.concept(src.at).Draw(rand.New(rand.NewPCG(7, uint64(k))), BatchRows)
		d := src.Next()
		if !slices.Equal(d.X, truth.X) {
			t.Fatal("the features are not those of the concept")
		}
		for i, y := range d.Y {
			if y != truth.Y[i] {
				wrong++
				named[(y-truth.Y[i]+Usual.Classes)%Usual.Classes]++
			}
		}
	}
	if share := float64(wrong) / (messages * BatchRows); math.Abs(share-0.1) > 0.01 || len(named) != Usual.Classes-1 {
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
	src := opened(t, "usps", 1).(*recordedStream)
	first, second := src.stream[:usps.stream], src.stream[usps.stream:]
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
