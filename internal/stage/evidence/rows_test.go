package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// featuresOf returns rows of an order with 20 features that differ by class, and the numbers of which outcomes are
// made.
func featuresOf(o order, seed uint64, n int) (labels []string, x [][]float64, outcomes []float64) {
	r := rand.New(rand.NewPCG(seed, 90))
	rest, last := math.Sqrt(1-o.noise*o.noise), math.NaN()
	z := make([]float64, 20)
	for j := range z {
		z[j] = r.NormFloat64()
	}
	o.rows(rand.New(rand.NewPCG(seed, 91)), n, func(class int, u float64) {
		row := make([]float64, len(z))
		for j := range z {
			if u != last { // not a copy
				z[j] = o.noise*z[j] + rest*r.NormFloat64()
			}
			row[j] = float64((j+1)*(class+1)) + z[j]
		}
		labels, x, outcomes, last = append(labels, fmt.Sprint(class)), append(x, row), append(outcomes, u-0.5), u
	})
	return labels, x, outcomes
}

// TestMeasureRows: rows that depend on their neighbours have the design effect of outcomes with the same correlations.
// Independent rows have none, also if the concept changes, labels come in runs, features are missing or their scales
// change the distances, or a fifth of the labels is wrong.
func TestMeasureRows(t *testing.T) {
	for name, c := range map[string]struct {
		order    order
		change   func(r *rand.Rand, i int, label *string, x []float64)
		from, to float64
	}{
		"independent": {to: 1.1}, "runs of 300": {order: order{run: 300}, to: 1.5},
		"Markov, 100":        {order: order{run: 1, stay: 0.99}, to: 1.5},
		"ten copies":         {order: order{copies: 10}, from: 9, to: 15},
		"a hundred copies":   {order: order{copies: 100}, from: 80, to: 130},
		"AR(1), 0.9":         {order: order{run: 300, noise: 0.9}, from: 11, to: 22}, // 19 with all correlations
		"AR(1), 0.5, random": {order: order{noise: 0.5}, to: 1.5},
		"a change": {change: func(_ *rand.Rand, i int, _ *string, x []float64) {
			if i >= 2000 {
				for j := range x {
					x[j] = -3 * x[j]
				}
			}
		}, to: 1.5},
		"missing features": {order: order{copies: 10}, change: func(r *rand.Rand, _ int, _ *string, x []float64) {
			x[r.IntN(len(x))] = math.NaN()
		}, from: 9, to: 15},
		"time": {change: func(_ *rand.Rand, i int, _ *string, x []float64) { x[0] = 1e6 * float64(i) }, to: 1.5},
		"huge and constant": {order: order{copies: 10}, change: func(_ *rand.Rand, i int, _ *string, x []float64) {
			if x[0] = 5; i == 7 {
				x[1] = 1e300
			}
		}, from: 9, to: 15},
		"wrong labels in runs": {order: order{run: 300}, change: func(r *rand.Rand, _ int, label *string, _ []float64) {
			if r.IntN(5) == 0 {
				*label = fmt.Sprint(r.IntN(orderClasses))
			}
		}, to: 1.5},
	} {
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed, 92))
			labels, x, _ := featuresOf(c.order, seed, 4000)
			for i := range x {
				if c.change != nil {
					c.change(r, i, &labels[i], x[i])
				}
			}
			d, ok := MeasureRows(labels, x, c.order.run > 0)
			if !(ok && c.from <= d.Effect && d.Effect <= c.to) {
				t.Errorf("%s, seed %d: a design effect of %.2f, want %g to %g", name, seed, d.Effect, c.from, c.to)
			}
		}
	}
	labels, x, _ := featuresOf(order{copies: 10}, 1, 511)
	if d, ok := MeasureRows(labels, x, true); ok || d != (RowDependence{}) {
		t.Errorf("511 rows have a design effect of %g", d.Effect)
	}
}

// TestBlockVariance compares the variance of a block, and what the ratio of neighbouring blocks is, with the sums of
// the correlations of its rows. Rows that are more than 512 apart and less than 1024 still have some.
func TestBlockVariance(t *testing.T) {
	var correlations [lags + 1]float64
	for l := range lags {
		correlations[l] = 1 / float64(l+2)
	}
	at := func(lag int) float64 {
		switch l := math.Log2(float64(max(lag, 1))); {
		case lag == 0:
			return 1
		case l >= lags:
			return 0
		default:
			from := math.Exp2(math.Floor(l))
			share := float64(lag)/from - 1
			return (1-share)*correlations[int(l)] + share*correlations[int(l)+1]
		}
	}
	for _, rows := range []int{8, 64, 2048} {
		same, next := 0.0, 0.0
		for i := range rows {
			for k := range rows {
				same += at(max(i-k, k-i))
				next += at(rows + k - i)
			}
		}
		block, two := blockVariance(&correlations, float64(rows)), blockVariance(&correlations, float64(2*rows))
		if want := same / float64(rows); !(math.Abs(block-want) <= 1e-9*want) {
			t.Errorf("a block of %d rows: %g, want %g", rows, block, want)
		}
		if want := (same - next) / float64(rows); !(math.Abs(2*block-two-want) <= 1e-9*same/float64(rows)) {
			t.Errorf("neighbouring blocks of %d rows: a ratio of %g, want %g", rows, 2*block-two, want)
		}
	}
}

// TestEffectByRows: outcomes count as dependent as the rows until some are known. From then on they count as dependent
// as they are, also if blocks of up to 64 rows are too short to show all of it.
func TestEffectByRows(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		labels, x, outcomes := featuresOf(order{copies: 100}, seed, 5000)
		rows, ok := MeasureRows(labels, x, true)
		if !ok {
			t.Fatal("too few rows")
		}
		dependent, independent := Dependence{Rows: rows}, Dependence{Rows: rows}
		if e := dependent.SafeEffect(); e != rows.Effect {
			t.Errorf("without outcomes the design effect is %g, that of the rows %g", e, rows.Effect)
		}
		r := rand.New(rand.NewPCG(seed, 93))
		for n, u := range outcomes {
			dependent.Add(u)
			independent.Add(r.Float64() - 0.5)
			if e := dependent.ShortEffect(); !(25 < e && e < 250) {
				t.Fatalf("seed %d: after %d outcomes, a hundred the same, the design effect is %g", seed, n+1, e)
			}
		}
		if e := independent.Effect(); !(e < 15) {
			t.Errorf("seed %d: independent outcomes have a design effect of %g", seed, e)
		}
	}
}
