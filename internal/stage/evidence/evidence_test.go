package evidence

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// until returns after how many outcomes the evidence reaches 1000. With probability up only the candidate is correct,
// with probability down only the live model. It returns most if it does not reach 1000.
func until(seed uint64, margin, up, down float64, most int) int {
	r := rand.New(rand.NewPCG(seed, 1))
	t := SequentialTest{Margin: margin}
	for i := range most {
		x := 0.0
		switch u := r.Float64(); {
		case u < up:
			x = 1
		case u < up+down:
			x = -1
		}
		t.Add(x)
		if t.Value() >= 1000 {
			return i
		}
	}
	return most
}

// TestEvidence: a better candidate passes soon, an equal or worse one hardly ever, and a time in which it was worse
// does not hide that it is better now.
func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name             string
		margin, up, down float64
		rows, passes     int // of 100 runs of the rows, the minimum (passes > 0) or maximum (< 0) that pass
	}{
		{"20 points better", 0.005, 0.3, 0.1, 300, 90},
		{"5 points better", 0.005, 0.1, 0.05, 2000, 92},
		{"2 points better", 0.005, 0.06, 0.04, 12000, 75},
		{"equal, models alike", 0.005, 0.03, 0.03, 30000, -2},
		{"equal, models unlike", 0.005, 0.15, 0.15, 30000, -3},
		{"2 points worse", 0.005, 0.06, 0.08, 30000, -1},
		{"not worse by a point, where it is equal", -0.01, 0.03, 0.03, 15000, 82},
		{"not worse by a point, where it is by two", -0.01, 0.03, 0.05, 30000, -2},
	} {
		passed := 0
		for seed := range uint64(100) {
			if until(seed, c.margin, c.up, c.down, c.rows) < c.rows {
				passed++
			}
		}
		if c.passes > 0 && passed < c.passes || c.passes < 0 && passed > -c.passes {
			t.Errorf("%s: %d of 100 passed within %d rows", c.name, passed, c.rows)
		}
	}
	var old SequentialTest
	for range 10000 {
		old.Add(-1)
	}
	n := 0
	for ; old.Value() < 1000; n++ {
		old.Add(1)
	}
	if n > 40 {
		t.Errorf("%d rows to forget 10,000", n)
	}
}

// TestDriftDetector: a change of the mean is found soon, at its position, and a constant one gives no alarm.
func TestDriftDetector(t *testing.T) {
	for _, c := range []struct {
		before, after float64 // share of values that are 0
		within        int
	}{{0.25, 0.87, 64}, {0.25, 0.45, 300}, {0.3, 0.1, 250}, {0.02, 0.2, 160}} {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 2))
			var a DriftDetector
			draw := func(p float64) float64 {
				if r.Float64() < p {
					return 1
				}
				return 0
			}
			for i := range 5000 {
				if a.Add("", 1-draw(c.before)) {
					t.Errorf("seed %d: false alarm after %d of mean %g", seed, i, c.before)
				}
			}
			n := 1
			for ; !a.Add("", 1-draw(c.after)); n++ {
			}
			if n > c.within || a.Len() > n+200 {
				t.Errorf("seed %d: %g to %g was found after %d, window %d", seed, c.before, c.after, n, a.Len())
			}
			text, err := json.Marshal(a)
			var back DriftDetector
			if err != nil || json.Unmarshal(text, &back) != nil || !reflect.DeepEqual(a, back) || len(text) > 8000 {
				t.Fatalf("%d bytes of state: %v", len(text), err)
			}
		}
	}
}

// TestReplacedModel: the next model's values continue the series. That they are higher is no change, a fall right after
// the replacement is found as soon as with one model, and so is a rise among the values of the next model.
func TestReplacedModel(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		var a DriftDetector
		// add returns after how many rows, of at most n, a change of values that are 1 with a probability is found.
		add := func(n int, p float64) int {
			for i := range n {
				value := 0.0
				if r.Float64() < p {
					value = 1
				}
				if a.Add("", value) {
					return i
				}
			}
			return n
		}
		if at := add(3000, 0.6); at < 3000 {
			t.Fatalf("seed %d: false alarm after %d rows", seed, at)
		}
		a.Replace()
		if at := add(500, 0.85); at < 500 {
			t.Errorf("seed %d: a better model is a change after %d rows", seed, at)
		}
		a.Replace()
		if at := add(500, 0.2); at > 100 || a.Earlier > 64 {
			t.Errorf("seed %d: a fall right after a replacement was found after %d rows, %d rows of earlier models are left",
				seed, at, a.Earlier)
		}
		a.Replace()
		if at := add(1000, 0.2); at < 1000 {
			t.Errorf("seed %d: a model that is as good is a change after %d rows", seed, at)
		}
		if at := add(500, 0.85); at > 100 || a.Earlier > 0 {
			t.Errorf("seed %d: a rise among the values of one model was found after %d rows", seed, at)
		}
	}
}

// TestSampleHasNoOrder: of a sample in which a candidate is worse for half of the rows and better by as much for the
// others, the order does not matter, and nothing shows that it is better.
func TestSampleHasNoOrder(t *testing.T) {
	var values [2]float64
	for order := range values {
		test := SequentialTest{IsSample: true}
		for i := range 400 {
			worse := i < 200
			if order == 1 {
				worse = i%2 == 0
			}
			outcome := 0.5
			if worse {
				outcome = -0.5
			}
			test.AddRow(outcome, Row{NewRun: true})

		}
		values[order] = test.Value()
	}
	if !(math.Abs(values[0]-values[1]) < 1e-9) || !(values[0] <= 1) {
		t.Errorf("in runs the evidence is %g, in turns %g", values[0], values[1])
	}
}
