package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/embedd/embedd/model"
)

// clouds draws n rows of m correlated features in three classes with different means. With rare, the last class has
// only three rows.
func clouds(seed uint64, n, m int, rare bool) *model.Data {
	const classes = 3
	rng := rand.New(rand.NewPCG(seed, 7))
	d := &model.Data{N: n, M: m}
	centre := make([]float64, classes*m)
	for i := range centre {
		centre[i] = 2 * rand.New(rand.NewPCG(1, uint64(i))).NormFloat64() // the same for every seed
	}
	for c := range classes {
		d.Classes = append(d.Classes, fmt.Sprintf("c%d", c))
	}
	for i := range n {
		c := i % classes
		if rare {
			if c = i % 2; i >= n-3 {
				c = 2
			}
		}
		d.Y = append(d.Y, c)
		shared := rng.NormFloat64()
		for j := range m {
			d.X = append(d.X, (centre[c*m+j]+rng.NormFloat64()+0.5*shared)*(1+float64(j%3))+3)
		}
	}
	return d
}

// duplicated draws rows, some of them equal.
func duplicated(seed uint64) *model.Data {
	d := clouds(seed, 45, 5, false)
	for i := 0; i+3 < d.N; i += 5 {
		copy(d.X[(i+3)*d.M:(i+4)*d.M], d.X[i*d.M:]) // of the same class
	}
	return d
}

// ordinary are data sets that every method can fit.
func ordinary() map[string]*model.Data {
	missing := clouds(3, 45, 5, false)
	for i := 0; i < missing.N; i += 4 {
		missing.X[i*missing.M+i%missing.M] = math.NaN()
	}
	return map[string]*model.Data{
		"tall":       clouds(1, 60, 6, false),
		"wide":       clouds(1, 18, 30, false),
		"duplicates": duplicated(2),
		"missing":    missing,
		"rare class": clouds(4, 45, 5, true),
	}
}

// withUnlabelled inserts a row without a label, far from all others, before every fifth row.
func withUnlabelled(d *model.Data) *model.Data {
	out := &model.Data{M: d.M, Classes: d.Classes, Features: d.Features}
	for i := range d.N {
		if i%5 == 0 {
			for j := range d.M {
				out.X = append(out.X, 100+float64(i*j))
			}
			out.Y = append(out.Y, -1)
		}
		out.X, out.Y = append(out.X, d.X[i*d.M:(i+1)*d.M]...), append(out.Y, d.Y[i])
	}
	out.N = len(out.Y)
	return out
}

// degenerate are data sets with little or no information, and invalid ones.
func degenerate() map[string]*model.Data {
	two := []string{"a", "b"}
	rare := &model.Data{X: make([]float64, 12*20), N: 12, M: 20, Classes: two}
	rare.X[3], rare.X[3*20+7] = 1, 2 // among the other rows nothing varies
	for i := range rare.N {
		rare.Y = append(rare.Y, i/6)
	}
	points := &model.Data{X: make([]float64, 8*3), N: 8, M: 3, Classes: two, Y: []int{0, 0, 0, 0, 1, 1, 1, 1}}
	for i := 4; i < 8; i++ {
		points.X[3*i] = 1
	}
	oneClass := clouds(5, 12, 3, false)
	clear(oneClass.Y)
	noLabels := clouds(5, 12, 3, false)
	noLabels.Y = nil
	infinite := clouds(5, 12, 3, false)
	infinite.X[4] = math.Inf(1)
	empty := clouds(5, 12, 3, false)
	for i := range empty.N {
		empty.X[i*empty.M] = math.NaN()
	}
	huge := clouds(5, 12, 3, false)
	for i := range huge.X {
		huge.X[i] *= 1e200
	}
	return map[string]*model.Data{
		"no data":                nil,
		"no rows":                {M: 3, Classes: two},
		"no features":            {N: 3, Classes: two, Y: []int{0, 1, 0}},
		"shapes that do not fit": {X: make([]float64, 5), N: 2, M: 3, Classes: two, Y: []int{0, 1}},
		"a class without a name": {X: []float64{1, 2, 3, 4}, N: 2, M: 2, Classes: two, Y: []int{0, 5}},
		"one row":                {X: []float64{1, 2}, N: 1, M: 2, Classes: two, Y: []int{0}},
		"two rows":               {X: []float64{1, 2, 3, 5}, N: 2, M: 2, Classes: two, Y: []int{0, 1}},
		"classes of one row": {X: []float64{1, 2, 3, 5, 4, 4}, N: 3, M: 2, Classes: []string{"a", "b", "c"},
			Y: []int{0, 1, 2}},
		"one feature": {X: []float64{1, 2, 3, 5, 4, 9}, N: 6, M: 1, Classes: two,
			Y: []int{0, 0, 0, 1, 1, 1}},
		"constant rows":           {X: make([]float64, 18), N: 6, M: 3, Classes: two, Y: []int{0, 0, 0, 1, 1, 1}},
		"one point a class":       points,
		"features of single rows": rare,
		"one class":               oneClass,
		"no labels":               noLabels,
		"an infinite value":       infinite,
		"a feature of no value":   empty,
		"huge values":             huge,
	}
}

// telling returns data sets that reveal an error in a criterion: classes of unequal size, constant features, ties and
// other cases that a formula may handle wrongly. Each draw has other rows.
func telling(draw uint64) map[string]*model.Data {
	seed := 300 * draw
	uneven := clouds(seed+11, 45, 5, false)
	for i := range uneven.N {
		uneven.Y[i] = []int{0, 0, 1, 0, 1, 0, 0, 0, 2}[i%9]
	}
	far := clouds(seed+13, 40, 5, false)
	for _, i := range []int{7, 23} {
		for j := range far.M {
			far.X[i*far.M+j] += 300
		}
	}
	mean := clouds(seed+14, 42, 5, false)
	for i := range mean.X {
		mean.X[i] += 1e6
	}
	constant := clouds(seed+15, 42, 6, false)
	for i := range constant.N {
		constant.X[i*constant.M+2], constant.X[i*constant.M+5] = 7.3, 0
	}
	return map[string]*model.Data{
		"uneven":     uneven,
		"duplicates": duplicated(seed + 12),
		"wide":       clouds(seed+16, 20, 30, false),
		"far pair":   far,
		"huge mean":  mean,
		"constant":   constant,
		"tied":       tied(seed + 17),
	}
}

// tied draws rows of small whole numbers with the mean zero: many distances are equal to the last bit.
func tied(seed uint64) *model.Data {
	rng := rand.New(rand.NewPCG(seed, 7))
	d := &model.Data{N: 48, M: 4, Classes: []string{"a", "b", "c"}}
	for i := range d.N / 2 {
		row := make([]float64, d.M)
		for j := range row {
			row[j] = float64(rng.IntN(3) + i%3*(j%2) - 1)
		}
		for _, sign := range []float64{1, -1} {
			for _, v := range row {
				d.X = append(d.X, sign*v)
			}
			d.Y = append(d.Y, (i+int(1-sign)/2)%3)
		}
	}
	return d
}
