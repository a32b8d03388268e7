package fit

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/embedd/embedd/model"
)

// storedRows is a model.RowReader of rows that are in memory; nil rows cannot be read.
type storedRows struct {
	x []float64
	m int
}

var errUnreadable = errors.New("the disk is gone")

func (s storedRows) ReadRows(dst []float64, from int) error {
	if s.x == nil {
		return errUnreadable
	}
	copy(dst, s.x[from*s.m:])
	return nil
}

// storedData returns the same rows in memory and stored: n of m features in 4 classes, every fifth without a label.
func storedData(n, m int) (held, stored *model.Data) {
	r := rand.New(rand.NewPCG(1, 2))
	d := &model.Data{N: n, M: m, Classes: []string{"b", "a", "c", "d"}}
	for i := range n {
		class := r.IntN(4)
		for j := range m {
			d.X = append(d.X, r.NormFloat64()+float64((class*j)%3))
		}
		if i%5 == 0 {
			class = -1
		}
		d.Y = append(d.Y, class)
	}
	s := *d
	s.X, s.Stored = nil, storedRows{d.X, m}
	return d, &s
}

// TestStored: stored rows give the model of rows in memory, bit for bit, with methods that read them a block at a time
// and with others.
func TestStored(t *testing.T) {
	streams := 0
	for _, m := range Methods() {
		if m.Streaming != "moments" || m.Name == Blend {
			continue
		}
		for _, dim := range []int{2, AutoDim} {
			c := Config{Method: m.Name, Dim: dim, Seed: 1}
			if !c.Streams() {
				continue
			}
			streams++
			for _, n := range []int{9000, 40, 15} { // 15 are fewer than features
				held, stored := storedData(n, 20)
				sameModel(t, held, stored, c)
			}
		}
	}
	if streams < 8 {
		t.Errorf("%d configurations read rows a block at a time", streams)
	}
	held, stored := storedData(300, 6)
	for _, c := range []Config{{Method: "lpp", Dim: 2}, {Method: "lda", Dim: 2, Scale: model.ScaleMinMax},
		{Method: "lda", Dim: 2, Landmarks: 20}, {Dim: 2}} {
		if c.Streams() {
			t.Errorf("%+v reads rows a block at a time", c)
		}
		sameModel(t, held, stored, c)
	}
}

func sameModel(t *testing.T, held, stored *model.Data, c Config) {
	t.Helper()
	want, errWant := Fit(t.Context(), held, c)
	have, err := Fit(t.Context(), stored, c)
	switch {
	case err != nil && errWant != nil && err.Error() == errWant.Error():
	case err != nil || errWant != nil:
		t.Errorf("%s at %d, %d rows: %v, in memory %v", c.Method, c.Dim, held.N, err, errWant)
	case have.Digest() != want.Digest():
		t.Errorf("%s at %d, %d rows: digest %s, in memory %s", c.Method, c.Dim, held.N, have.Digest(), want.Digest())
	}
}

// An error of the reader ends the fit.
func TestStoredUnreadable(t *testing.T) {
	_, stored := storedData(300, 6)
	stored.Stored = storedRows{}
	for _, method := range []string{"lda", "mfa", Auto} {
		if _, err := Fit(t.Context(), stored, Config{Method: method, Dim: 2}); !errors.Is(err, errUnreadable) {
			t.Errorf("%s: %v", method, err)
		}
	}
	held, stored := storedData(300, 6)
	held.X[7] = math.Inf(1)
	if _, err := Fit(t.Context(), stored, Config{Method: "lda", Dim: 2}); err == nil ||
		!strings.Contains(err.Error(), "feature 1") {
		t.Errorf("an infinite value: %v", err)
	}
}
