package streams

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// The halves of twins have the same class means, of classes of the same share, and the order of the stream.
func TestTwins(t *testing.T) {
	for _, s := range Twins() {
		if s.real != nil {
			continue
		}
		w := NewWorld(1, s.shape())
		c := s.concept(w, 0, 4*BatchRows)
		k, m := c.means.Dims()
		var first, second [][]float64
		for y := range k {
			first = append(first, c.means.RawRowView(y)[:m/2])
			second = append(second, c.means.RawRowView(y)[m/2:])
		}
		for y, mean := range second {
			other := slices.IndexFunc(first, func(x []float64) bool { return floats.Equal(x, mean) })
			if other < 0 || c.shares[other] != c.shares[y] || k > 2 && y < k-1 && other == y {
				t.Errorf("%s: the second half of class %d has the mean of class %d", s.Name, y, other)
			}
		}
		a, b := c.spread.Slice(0, m/2, 0, m/2), c.spread.Slice(m/2, m, m/2, m)
		if !mat.Equal(a, b) || mat.Norm(c.spread.Slice(0, m/2, m/2, m), 1) > 0 {
			t.Errorf("%s: the noise of the halves differs, or is correlated", s.Name)
		}
	}
}

// The second half of an image is another image of the digit.
func TestTwinsOfImages(t *testing.T) {
	all := Twins()
	s := all[slices.IndexFunc(all, func(s Stream) bool { return s.Name == "usps-shuffled" })]
	twice, err := s.real.read()
	if err != nil {
		t.Fatal(err)
	}
	once, err := usps8.read()
	if err != nil {
		t.Fatal(err)
	}
	place := 0 // of the images of the first digit
	for i := range once.N {
		row := rowOf(twice, i)
		if !slices.Equal(row[:once.M], rowOf(once, i)) {
			t.Fatalf("image %d is another one", i)
		}
		if once.Y[i] != 0 {
			continue
		}
		if place++; place < uspsCounts[0] && !slices.Equal(row[once.M:], rowOf(once, i+1)) {
			t.Fatalf("behind image %d is not the next one of its digit", i)
		}
	}
}
