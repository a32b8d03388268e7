package streams

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/model"
)

// lengths are those of the runs of one class.
func lengths(y []int) []int {
	var all []int
	for from := 0; from < len(y); {
		to := from
		for to < len(y) && y[to] == y[from] {
			to++
		}
		all = append(all, to-from)
		from = to
	}
	return all
}

func TestOrders(t *testing.T) {
	labels := func(name string, messages int) []int { return rowsOf(opened(t, name, 1), messages).Y }
	if n := lengths(labels("runs300", 48)); slices.Min(n) != 300 || slices.Max(n) != 300 {
		t.Errorf("runs of 300 rows: %v", n)
	}
	for name, want := range map[string]float64{"markov30": 30, "markov100": 100} {
		if n := lengths(labels(name, 64)); math.Abs(16_000/float64(len(n))-want) > want/4 {
			t.Errorf("%s: %d runs in 16,000 rows", name, len(n))
		}
	}
	for _, name := range []string{"usps-sorted", "digits-sorted"} {
		src := opened(t, name, 1)
		if n := lengths(rowsOf(src, src.Rows()/BatchRows).Y); len(n) != 10 {
			t.Errorf("%s: %d runs of 10 classes", name, len(n))
		}
	}
	if y := labels("classes", 8); slices.Max(y[:1000]) != 0 || slices.Max(y[1000:]) != 1 {
		t.Error("the second class does not come with row 1,000")
	}
	copies := rowsOf(opened(t, "copies", 1), 2)
	for i := range copies.N {
		from := i / 10 * 10
		if !slices.Equal(rowOf(copies, i), rowOf(copies, from)) || copies.Y[i] != copies.Y[from] {
			t.Fatalf("row %d is not a copy of row %d", i, from)
		}
	}
	if slices.Equal(rowOf(copies, 0), rowOf(copies, 10)) {
		t.Error("the eleventh row is a copy too")
	}
}

// The first run is of any class.
func TestFirstRun(t *testing.T) {
	var first [4]int
	for seed := range uint64(100) {
		first[order{run: 2}.begin().class(rand.New(rand.NewPCG(seed, 2)), []float64{1, 1, 1, 1})]++
	}
	if slices.Min(first[:]) < 10 {
		t.Errorf("of 100 streams so many begin with each class: %v", first)
	}
}

func rowOf(d *model.Data, i int) []float64 { return d.X[i*d.M : (i+1)*d.M] }

// Noise is autocorrelated within a run, with the variance of independent noise.
func TestAutocorrelatedNoise(t *testing.T) {
	src := opened(t, "ar", 1).(*generatedStream)
	d := rowsOf(src, 64)
	product, square, n := 0.0, 0.0, 0
	means := src.world.Base.means
	for i := 1; i < d.N; i++ {
		if d.Y[i] != d.Y[i-1] {
			continue
		}
		for j, v := range rowOf(d, i) {
			mean := means.At(d.Y[i], j)
			product += (v - mean) * (rowOf(d, i-1)[j] - mean)
			square += (v - mean) * (v - mean)
			n++
		}
	}
	if r := product / square; math.Abs(r-0.9) > 0.02 {
		t.Errorf("autocorrelation %.3f", r)
	}
	free := opened(t, "independent", 1).(*generatedStream)
	plain, other := rowsOf(free, 64), 0.0
	for i := range plain.N {
		for j, v := range rowOf(plain, i) {
			other += (v - means.At(plain.Y[i], j)) * (v - means.At(plain.Y[i], j))
		}
	}
	if ratio := square / float64(n) / (other / float64(len(plain.X))); math.Abs(ratio-1) > 0.1 {
		t.Errorf("the variance is %.2f of that of independent noise", ratio)
	}
}

func TestWithheld(t *testing.T) {
	labelled := 0
	d := rowsOf(opened(t, "sparse", 1), 80)
	for _, y := range d.Y {
		if y != NoLabel {
			labelled++
		}
	}
	if share := float64(labelled) / float64(d.N); share < 0.007 || share > 0.013 {
		t.Errorf("%.3f of the rows have a label", share)
	}
	incomplete := 0
	d = rowsOf(opened(t, "missing", 1), 16)
	for i := range d.N {
		if slices.ContainsFunc(rowOf(d, i), math.IsNaN) {
			incomplete++
		}
	}
	if share := float64(incomplete) / float64(d.N); share < 0.07 || share > 0.13 {
		t.Errorf("%.3f of the rows lack features", share)
	}
}

// What is steady drifts by the same angle in each thousand rows, and a hyperplane separates its classes.
func TestSteadyDrift(t *testing.T) {
	w := NewWorld(1, narrow)
	apart := func(a, b []float64) float64 {
		sum := 0.0
		for j := range a {
			sum += a[j] * b[j]
		}
		return math.Acos(min(sum, 1)) * 180 / math.Pi
	}
	if angle := apart(w.direction(0), w.direction(radians(5, 3000))); math.Abs(angle-15) > 1e-6 {
		t.Errorf("3,000 rows turn by %g degrees", angle)
	}
	src := opened(t, "hyperplane5", 1).(*generatedStream)
	_, d := src.Fresh(src.random, 0, 10, 500)
	for i := range d.N {
		side := 0.0
		for j, v := range rowOf(d, i) {
			side += src.world.direction(0)[j] * (v - 0.5)
		}
		if math.Abs(side) > 1e-6 && side > 0 != (d.Y[i] == 1) {
			t.Fatalf("row %d is on the other side of the plane", i)
		}
	}
}
