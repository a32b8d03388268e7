package fit

import (
	"math"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fixture"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
)

// loss is what outputs of a model with landmarks lose where a step is in float32: the largest error of an output,
// divided by its root mean square over the rows.
type loss struct {
	weights  float64 // sum of the magnitudes of the terms, in the same unit
	products float64 // products of rows in float32, sums in float64
	all      float64 // sums in float32 too
	rounded  float64 // exact kernels, rounded to float32
}

// float32Loss computes it for rows evenly spaced in d.
func float32Loss(m *model.Model, d *model.Data, rows int) (worst loss) {
	content := m.Content()
	km := content.Map.(*mapping.KernelMap)
	count, width := len(km.Coefficients)/km.D, d.M
	marks := make([]float32, len(km.Rows))
	for i, v := range km.Rows {
		marks[i] = float32(v)
	}
	z, z32 := make([]float64, width), make([]float32, width)
	exact, single := make([]float64, count), make([]float32, count)
	squares, lost := make([]float64, km.D), make([]loss, km.D)
	for r := range rows {
		for j := range z {
			z[j] = (d.X[r*d.N/rows*width+j] - content.Mean[j]) / content.Scale[j]
			z32[j] = float32(z[j])
		}
		for i := range count {
			mark, mark32 := km.Rows[i*width:(i+1)*width], marks[i*width:(i+1)*width]
			exact[i] = math.Exp(-linalg.SquaredDistance(z, mark) / km.K.Param[0])
			norm := float32(linalg.Dot(mark, mark))
			distance := max(dot32(z32, z32)+norm-2*dot32(z32, mark32), 0)
			single[i] = float32(math.Exp(float64(-distance / float32(km.K.Param[0]))))
		}
		for c := range km.D {
			var y, size, products, rounded float64
			var all [8]float32
			for i, k := range exact {
				a := km.Coefficients[i*km.D+c]
				y += a * k
				size += math.Abs(a) * k
				products += a * float64(single[i])
				rounded += a * float64(float32(k))
				all[i%8] = fused(float32(a), single[i], all[i%8])
			}
			l := &lost[c]
			l.weights = max(l.weights, size)
			l.products = max(l.products, math.Abs(products-y))
			l.all = max(l.all, math.Abs(float64(lanes(all))-y))
			l.rounded = max(l.rounded, math.Abs(rounded-y))
			squares[c] += (y + km.Offset[c]) * (y + km.Offset[c])
		}
	}
	for c, l := range lost {
		unit := math.Sqrt(squares[c] / float64(rows))
		worst.weights = max(worst.weights, l.weights/unit)
		worst.products = max(worst.products, l.products/unit)
		worst.all = max(worst.all, l.all/unit)
		worst.rounded = max(worst.rounded, l.rounded/unit)
	}
	return worst
}

func fused(x, y, z float32) float32 { return float32(math.FMA(float64(x), float64(y), float64(z))) }

func lanes(s [8]float32) float32 {
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}

func dot32(a, b []float32) float32 {
	var s [8]float32
	for i, v := range a {
		s[i%8] = fused(v, b[i], s[i%8])
	}
	return lanes(s)
}

// Models with landmarks are projected in float64 because of the weights of supervised methods: with kernels in float32
// an output would be wrong by more than a millionth of its root mean square, even if each kernel were rounded once.
// The log is a table of docs/evidence/performance.md.
func TestLandmarksNeedFloat64(t *testing.T) {
	for _, set := range []struct {
		name string
		data *model.Data
	}{{"digits", fixture.Dataset(t, "digits")}, {"vowel", fixture.Dataset(t, "vowel")},
		{"normal classes", fixture.Synthetic(1, 3000, 64, 10)}}[testsize.Of(1, 0):testsize.Of(2, 3)] {
		for _, method := range []string{"lda", "pca"} {
			m := fit(t, set.data, Config{Method: method, Dim: 9, Landmarks: 300})
			l := float32Loss(m, set.data, 600)
			t.Logf("%s, %s: weights %.3g, all float32 %.2g, float64 sums %.2g, kernels rounded %.2g", set.name, method,
				l.weights, l.all, l.products, l.rounded)
			if real := set.name != "normal classes"; real && method == "lda" && !(l.rounded > 1e-6) {
				t.Errorf("%s: rounded kernels lose %.2g: float32 would do", set.name, l.rounded)
			}
			if !(l.all < 1e-3) {
				t.Errorf("%s, %s: float32 loses %.2g, more than rounding explains", set.name, method, l.all)
			}
		}
	}
}
