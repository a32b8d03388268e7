package fit

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
)

// TestAutoParameters: the value that each method uses for auto is the one that its documentation defines, computed here
// from the rows.
func TestAutoParameters(t *testing.T) {
	d := fixture.Synthetic(4, 45, 4, 3)
	m := standardised(d)
	nearest := m.nearest(func(i, j int) bool { return true })
	own := m.nearest(func(i, j int) bool { return d.Y[i] == d.Y[j] })
	least, length := math.Inf(1), 0.0 // of the largest squared distances of each row; mean square
	for i := range m.n {
		largest := 0.0
		for j := range m.n {
			largest = max(largest, m.apart(i, j))
		}
		least = min(least, largest)
		for _, v := range m.row(i) {
			length += v * v / float64(m.n)
		}
	}
	learned := map[string][]float64{"alpha": {8 * length}, "beta": {0.1 * length}, "sigma": {4 * nearest / least}}
	width := map[string][]float64{"t": {nearest}}
	for name, want := range map[string]map[string][]float64{
		"lenews": learned, "lppnews": learned,
		"lenewks": {"alpha": {8}, "beta": {0.1}, "sigma": learned["sigma"]}, // lengths in the space of the kernel are 1
		"le":      width, "lpp": width, "tsimr": width, "mp-tsimr": width, "ltsimr": width,
		"mp-ltsimr": width,
		"mpda":      {"t": {own}}, "pmpda": {"t": {own}},
		"dla":   {"t": {own}, "beta": {0, 0.1, 0.2, 0.5, 1}},
		"lltsa": {"k": {12}},
		"lsdr":  {"lambda": {0.001, 0.1, 10}},
		"lsda":  {"pca": {1}},
	} {
		c := Config{Method: name, Dim: 2, Params: map[string]string{}, Workers: 1}
		for p := range want {
			c.Params[p] = "auto"
		}
		used := fit(t, d, c).Params()
		for p, values := range want {
			got, err := strconv.ParseFloat(used[p], 64)
			if err != nil || !slices.ContainsFunc(values, func(v float64) bool { return math.Abs(got-v) <= 1e-3*v }) {
				t.Errorf("%s: %s is %s, want one of %v", name, p, used[p], values)
			}
		}
	}
	for dim, want := range map[int]string{10: "12", 11: "13"} { // a patch has more rows than dimensions
		wide := fixture.Synthetic(4, 45, 14, 3)
		if k := fit(t, wide, Config{Method: "lltsa", Dim: dim}).Params()["k"]; k != want {
			t.Errorf("lltsa of %d dimensions: k is %s, want %s", dim, k, want)
		}
	}
}

// cloud is standardised rows, computed without the code under test.
type cloud struct {
	n, m int
	x    []float64
}

func standardised(d *model.Data) cloud {
	c := cloud{d.N, d.M, slices.Clone(d.X)}
	for j := range d.M {
		mean, variance := 0.0, 0.0
		for i := range d.N {
			mean += d.X[i*d.M+j] / float64(d.N)
		}
		for i := range d.N {
			variance += (d.X[i*d.M+j] - mean) * (d.X[i*d.M+j] - mean) / float64(d.N)
		}
		for i := range d.N {
			c.x[i*d.M+j] = (d.X[i*d.M+j] - mean) / math.Sqrt(variance)
		}
	}
	return c
}

func (c cloud) row(i int) []float64 { return c.x[i*c.m : (i+1)*c.m] }

// apart is a squared distance.
func (c cloud) apart(i, j int) (sum float64) {
	for k, v := range c.row(i) {
		sum += (v - c.row(j)[k]) * (v - c.row(j)[k])
	}
	return sum
}

// nearest is the mean squared distance of the rows to the nearest other row that may be chosen.
func (c cloud) nearest(may func(i, j int) bool) (mean float64) {
	for i := range c.n {
		least := math.Inf(1)
		for j := range c.n {
			if j != i && may(i, j) {
				least = min(least, c.apart(i, j))
			}
		}
		mean += least / float64(c.n)
	}
	return mean
}
