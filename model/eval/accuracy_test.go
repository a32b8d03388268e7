package eval

import (
	"context"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model/internal/fixture"
)

// Accuracies over 10 stratified halves, standard scale, compared with independent prototypes of the same formulas.
func TestAccuracyOnRealData(t *testing.T) {
	for _, c := range []struct {
		data, method string
		dim          int
		least        float64
	}{
		{"wine", "lda", 2, 0.96},
		{"wine", "sle-ovr", 2, 0.95},
		{"digits", "lda", 9, 0.95},
		{"digits", "lda", 2, 0.58},
		{"digits", "pairacc", 2, 0.68},
		{"vowel", "pairacc", 2, 0.53},
		{"vowel", "mfa", 10, 0.936},
		{"iris", "mfa", 4, 0.945},
		{"wine", "lfda", 2, 0.97},
		{"digits", "dla", 10, 0.96},
	}[:testsize.Of(2, 10)] {
		err := Evaluate(context.Background(), fixture.Dataset(t, c.data),
			Config{Methods: []string{c.method}, Dims: []int{c.dim}, Seed: 1}, func(r Result) error {
				t.Logf("%s %s d=%d: %.2f +- %.2f", c.data, c.method, c.dim, 100*r.AccuracyMean, 100*r.AccuracySD)
				if !(r.AccuracyMean >= c.least) {
					t.Errorf("%s %s d=%d: accuracy %.3f, want %.2f", c.data, c.method, c.dim, r.AccuracyMean, c.least)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// On real data the views alone classify about as well as neighbours in the features.
func TestViewsWine(t *testing.T) {
	r := evaluate(t, fixture.Dataset(t, "wine"), Config{Methods: []string{"sle-ovr", Raw}, Splits: 5})
	t.Logf("sle-ovr %.3f, raw %.3f", r[0].AccuracyMean, r[1].AccuracyMean)
	if r[0].Error != "" || !(r[0].AccuracyMean >= r[1].AccuracyMean-0.02) {
		t.Errorf("%+v", r[0])
	}
}
