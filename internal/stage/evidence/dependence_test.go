package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
)

// order is how rows of a stream depend on each other.
type order struct {
	name   string
	run    int     // rows of one class in a row
	stay   float64 // probability that the next row has the same class
	noise  float64 // correlation of the noise of neighbouring rows
	copies int     // of each row
	rare   bool    // the last class has one row in 1,000
}

var orders = []order{
	{name: "independent"},
	{name: "runs of 30", run: 30}, {name: "runs of 300", run: 300}, {name: "runs of 1,000", run: 1000},
	{name: "runs of 2,000", run: 2000},
	{name: "Markov, 30", stay: 1 - 1./30}, {name: "Markov, 100", stay: 1 - 1./100},
	{name: "AR(1)", run: 30, noise: 0.9},
	{name: "ten copies", copies: 10},
	{name: "1:1000", rare: true},
}

const orderClasses = 8

// rows calls each with the class of each of n rows, and a number that is uniform in [0, 1].
func (o order) rows(r *rand.Rand, n int, each func(class int, u float64)) {
	class, left, z, copies, u := 0, 0, 0.0, 0, 0.0
	for range n {
		if copies--; copies <= 0 {
			if left--; left <= 0 {
				if r.Float64() >= o.stay {
					class = r.IntN(orderClasses)
				}
				if o.rare {
					class = r.IntN(orderClasses - 1)
					if r.IntN(1000) == 0 {
						class = orderClasses - 1
					}
				}
				left = o.run
			}
			z = o.noise*z + math.Sqrt(1-o.noise*o.noise)*r.NormFloat64()
			u, copies = math.Erfc(-z/math.Sqrt2)/2, o.copies
		}
		each(class, u)
	}
}

// seeds is a number of seeds, or many with EMBEDD_SOAK.
func seeds(few, many int) uint64 {
	if testsize.Soak() {
		return uint64(many)
	}
	return uint64(few)
}

// recalls are those of the classes of a model.
var recalls = [orderClasses]float64{.95, .9, .85, .8, .7, .65, .6, .5}

// TestNoAlarmOfDependentRows: classes with different recalls that come in runs, rows that depend on their neighbours,
// copies and rare classes are no change.
func TestNoAlarmOfDependentRows(t *testing.T) {
	for _, o := range orders {
		for seed := range seeds(1, 20) {
			var a DriftDetector
			alarms := 0
			o.rows(rand.New(rand.NewPCG(seed, 77)), 60_000, func(class int, u float64) {
				v := 0.0
				if u < recalls[class] {
					v = 1
				}
				if a.Add(fmt.Sprint(class), v) {
					alarms++
				}
			})
			if alarms > 1 {
				t.Errorf("%s, seed %d: %d false alarms in 60,000 rows, effect %.1f", o.name, seed, alarms, a.Blocks.Effect())
			}
		}
	}
}

// TestChangesAreFoundSoon: the recall of each class falls to the same share. Medians are those of ADWIN on the values
// without classes, which knows nothing of dependent rows, with a margin for few seeds.
func TestChangesAreFoundSoon(t *testing.T) {
	for _, c := range []struct {
		before int
		left   float64 // share of the recall
		median int
	}{{300, 0.33, 59}, {1000, 0.33, 55}, {1000, 0.6, 111}, {5000, 0.33, 47}, {5000, 0.6, 95}, {5000, 0.8, 350}} {
		var rows []int
		for seed := range seeds(20, 100) {
			var a DriftDetector
			n, found := 0, 3000
			orders[0].rows(rand.New(rand.NewPCG(seed, 78)), c.before+3000, func(class int, u float64) {
				p, v := recalls[class], 0.0
				if n >= c.before {
					p *= c.left
				}
				if u < p {
					v = 1
				}
				if n++; found == 3000 && a.Add(fmt.Sprint(class), v) && n > c.before {
					found = n - c.before
				}
			})
			rows = append(rows, found)
		}
		slices.Sort(rows)
		if median := rows[len(rows)/2]; median > c.median {
			t.Errorf("after %d rows, recall times %g: found after %d rows", c.before, c.left, median)
		}
	}
}

// TestDesignEffect: copies count once, and independent rows in full.
func TestDesignEffect(t *testing.T) {
	for _, c := range []struct {
		order    order
		from, to float64
	}{{order{}, 1, 1.6}, {order{run: 300}, 1, 1.6}, {order{copies: 10}, 7, 15}, {order{noise: 0.9}, 6, 20}} {
		var d Dependence
		if d.Effect() < 2 {
			t.Error("the effect is known without rows")
		}
		c.order.rows(rand.New(rand.NewPCG(1, 79)), 10_000, func(class int, u float64) { d.Add(u - 0.5) })
		if e := d.Effect(); e < c.from || e > c.to {
			t.Errorf("%+v: %.2f", c.order, e)
		}
	}
}

// TestChangesAreNoDependence: labels come in runs, and the recalls of classes rise and fall one after another, so that
// their mean does not change. A fall of all recalls is found soon. Blocks of up to 512 rows count such changes as
// dependence: by these the design effect is 23, and the fall was found after 1,928 rows.
func TestChangesAreNoDependence(t *testing.T) {
	const before = 24_000
	var a DriftDetector
	n, found := 0, 0
	order{run: 100}.rows(rand.New(rand.NewPCG(1, 80)), before+2000, func(class int, u float64) {
		v := 0.0
		recall := 0.6 + 0.3*math.Sin(2*math.Pi*(float64(n)/4000+float64(class)/orderClasses))
		if n >= before {
			recall /= 3
		}
		if u < recall {
			v = 1
		}
		if n++; a.Add(fmt.Sprint(class), v) && n > before && found == 0 {
			found = n - before
		}
	})
	if found == 0 || found > 400 {
		t.Errorf("the fall is found after %d rows, 0: never; the design effect is %.1f", found, a.Blocks.ShortEffect())
	}
}
