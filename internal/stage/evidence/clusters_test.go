package evidence

import (
	"math"
	"math/rand/v2"
	"testing"
)

// drawn are differences between two models that are equally good, on rows held out in clusters of 16: a value depends
// on those before it within the cluster, and one model is better for one class, the other for another.
func drawn(r *rand.Rand, rows, copies int, carry float64) (values []float64, classes []string, clusters []int) {
	state, value := 0.0, 0.0
	for i := range rows {
		if i%16 == 0 {
			state = r.NormFloat64()
		}
		class := string(rune('a' + i/16%4))
		if copies == 0 || i%copies == 0 {
			state = carry*state + math.Sqrt(1-carry*carry)*r.NormFloat64()
			lean := []float64{0.4, -0.4, 0, 0}[class[0]-'a']
			switch u := 0.5 * math.Erfc(-state/math.Sqrt2); {
			case u < 0.15-0.3*lean/2:
				value = -1
			case u > 0.85-0.3*lean/2:
				value = 1
			default:
				value = 0
			}
		}
		values, classes, clusters = append(values, value), append(classes, class), append(clusters, i/16)
	}
	return values, classes, clusters
}

// TestClusters: of two equal models few pass as better, whatever the dependence within clusters, and independent
// outcomes count in full.
func TestClusters(t *testing.T) {
	for _, c := range []struct {
		name   string
		copies int
		carry  float64
		least  float64 // median effect
		most   float64
	}{
		{"independent", 0, 0, 1, 1.4},
		{"copies", 8, 0, 5, 11},
		{"autocorrelated", 0, 0.9, 3, 11},
	} {
		random, passed, above, below := rand.New(rand.NewPCG(1, 2)), 0, 0, 0
		const runs = 1000
		for range runs {
			values, classes, clusters := drawn(random, 320, c.copies, c.carry)
			var k Clusters
			for i, v := range values {
				k.Add(clusters[i], classes[i], v)
			}
			effect := k.Effect()
			if !(effect >= 1) {
				t.Fatalf("%s: effect %g", c.name, effect)
			}
			if effect > c.most {
				above++
			}
			if effect < c.least {
				below++
			}
			var test SequentialTest
			for _, v := range values {
				test.AddRow(v, Row{Effect: effect, NewRun: true})
			}
			if test.Value() >= 20 {
				passed++
			}
		}
		if passed > runs/20 {
			t.Errorf("%s: %d of %d pairs of equal models pass at odds of 20", c.name, passed, runs)
		}
		if above > runs/2 || below > runs/2 {
			t.Errorf("%s: the effect is above %g in %d and below %g in %d of %d runs", c.name, c.most, above, c.least, below,
				runs)
		}
	}
}

// TestFewClusters: outcomes that all agree say nothing about their dependence.
func TestFewClusters(t *testing.T) {
	var k Clusters
	if got := k.Effect(); !(math.Abs(got-4) <= 1e-12) {
		t.Errorf("effect %g of nothing", got)
	}
	for i := range 64 {
		k.Add(i/16, "a", 1)
	}
	if got := k.Effect(); !(math.Abs(got-4) <= 1e-12) {
		t.Errorf("effect %g of outcomes that agree", got)
	}
}

// TestAddChance: predictions by chance gain nothing, and right ones of a rare class much.
func TestAddChance(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	passed := 0
	for range 1000 {
		test, most := SequentialTest{Margin: 0.05}, 0.0
		for range 500 {
			right := 0.0
			if random.Float64() < 0.2 {
				right = 1
			}
			test.AddChance(right, 0.15, Row{NewRun: true})
			most = max(most, test.Value())
		}
		if most >= 160 {
			passed++
		}
	}
	if passed > 50 {
		t.Errorf("%d of 1000 runs of guesses reach odds of 20, from where they start over", passed)
	}
	once, usual := SequentialTest{}, SequentialTest{}
	for range 10 {
		once.AddChance(1, 0.1, Row{NewRun: true})
		usual.Add(0.9)
	}
	if !(once.Value() > 100*usual.Value()) {
		t.Errorf("ten right predictions at a chance of a tenth: odds %g, as differences %g", once.Value(), usual.Value())
	}
	certain := SequentialTest{}
	certain.AddChance(0, 0, Row{NewRun: true})
	certain.AddChance(1, 2, Row{NewRun: true})
	if v := certain.Value(); !(v > 0 && v < 1) {
		t.Errorf("odds %g of chances outside of [0, 1]", v)
	}
}

// TestLoneClusters: a class that one cluster has does not show how clusters differ.
func TestLoneClusters(t *testing.T) {
	r, mean := rand.New(rand.NewPCG(3, 4)), 0.0
	for range 20 {
		var lone, twice Clusters
		for i := range 160 {
			value := float64(r.IntN(3) - 1)
			lone.Add(i/16, string(rune('a'+i/16)), value)
			twice.Add(i/16, string(rune('a'+i/32)), value)
		}
		if effect := lone.Effect(); !(math.Abs(effect-4) <= 1e-12) {
			t.Errorf("each class in one cluster: effect %g, want that of what is unknown, 4", effect)
		}
		mean += twice.Effect() / 20
	}
	if !(mean < 1.7) {
		t.Errorf("independent outcomes, each class in two clusters: mean effect %g", mean)
	}
}
