package prequential

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/cores"
	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// outputsOf are outputs of d numbers for rows with labels.
func outputsOf(y []float64, d int, label func(i int) string) *outputs {
	var rows []*window.Row
	for i := range len(y) / d {
		rows = append(rows, &window.Row{Label: label(i)})
	}
	k := &outputs{y: y, numbering: &numbering{}}
	k.numbering.set(rows)
	k.setSums(d)
	return k
}

// TestNeighborsOutside: the nearest rows outside a span are those of comparing every pair, with equal rows among them,
// and with classes that are far apart.
func TestNeighborsOutside(t *testing.T) {
	const n, d, k = 300, 3, 7
	for _, apart := range []float64{0, 1, 3, 1e6} {
		r := rand.New(rand.NewPCG(81, 82))
		y := make([]float64, n*d)
		for i := range y {
			y[i] = float64(float32(r.NormFloat64() + apart*float64(i/d%5)))
		}
		for i := range 40 {
			copy(y[(200+i)*d:(201+i)*d], y[:d])
		}
		in := outputsOf(y, d, func(i int) string { return string(rune('a' + i%5)) })
		for _, near := range []span{{0, 20}, {100, 140}, {250, n}, {0, 0}, {4, n}, {0, n}} {
			var found neighbors
			got, err := found.outside(t.Context(), in, near, y[:50*d], k)
			if err != nil {
				t.Fatal(err)
			}
			var want []int
			for i := range 50 {
				var others []int
				for j := range n {
					if j < near.from || j >= near.to {
						others = append(others, j)
					}
				}
				distance := func(j int) float64 { return squaredDistance(y[j*d:(j+1)*d], y[i*d:(i+1)*d]) }
				slices.SortStableFunc(others, func(a, b int) int { return cmp.Compare(distance(a), distance(b)) })
				want = append(want, others[:min(k, len(others))]...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("classes %g apart: outside %v the nearest are %v, want %v", apart, near, got, want)
			}
		}
	}
}

// countingContext counts how often its error is checked.
type countingContext struct {
	context.Context
	n int
}

func (l *countingContext) Err() error {
	l.n++
	return l.Context.Err()
}

// TestSearchPauses: learning may pause about every 8,192 distances.
func TestSearchPauses(t *testing.T) {
	ctx := &countingContext{Context: t.Context()}
	in := outputsOf(make([]float64, 1000), 1, func(int) string { return "" })
	if _, err := new(neighbors).outside(ctx, in, span{}, make([]float64, 100), 3); err != nil ||
		ctx.n != 12 { // every nine rows
		t.Errorf("%d pauses in 100,000 distances: %v", ctx.n, err)
	}
}

// BenchmarkNeighbors: the ten nearest of 500 outputs of ten classes, which overlap or are far apart.
func BenchmarkNeighbors(b *testing.B) {
	for _, d := range []int{2, 8, 32} {
		for _, apart := range []float64{1, 3, 30} {
			b.Run(fmt.Sprintf("%d outputs, apart %g", d, apart), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				y, means := make([]float64, 1000*d), make([]float64, 10*d)
				for i := range means {
					means[i] = apart * r.NormFloat64()
				}
				for i := range y {
					y[i] = means[i%len(means)] + r.NormFloat64()
				}
				known, rows := outputsOf(y[:500*d], d, func(i int) string { return string(rune('a' + i%10)) }), y[500*d:]
				var found neighbors
				begin := cores.ProcessorTime()
				for b.Loop() {
					if _, err := found.outside(b.Context(), known, span{}, rows, 10); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cores.ProcessorTime()-begin)/float64(500*b.N), "processor-ns/row")
			})
		}
	}
}

// classRows are rows of classes whose means differ in two features; a row is repeated so often in a row.
func classRows(seed uint64, n, copies int) (rows []*window.Row) {
	r := rand.New(rand.NewPCG(seed, 1))
	var x []float64
	var label string
	for i := range n {
		if i%copies == 0 {
			class := r.IntN(3)
			x, label = make([]float64, 6), string(rune('a'+class))
			for j := range x {
				x[j] = r.NormFloat64()
			}
			x[0] += 3 * float64(class%2)
			x[1] += 3 * float64(class/2)
		}
		rows = append(rows, &window.Row{Position: window.Position{Seq: uint64(i/50 + 1), Row: i % 50}, X: x, Label: label,
			MessageRows: 50})
	}
	return rows
}

func fitted(t *testing.T, rows []*window.Row) *model.Model {
	t.Helper()
	d := &model.Data{M: 6, N: len(rows), Features: []string{"a", "b", "c", "d", "e", "f"},
		Classes: []string{"a", "b", "c"}}
	for _, r := range rows {
		d.X = append(d.X, r.X...)
		d.Y = append(d.Y, int(r.Label[0]-'a'))
	}
	m, err := fit.Fit(t.Context(), d, fit.Config{Method: "lda", Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What references in the coordinates of another model lose is found within its standard error, on many samples; a model
// loses nothing compared with itself. Copies of a row do not answer for it. Learning can pause meanwhile.
func TestCrossLoss(t *testing.T) {
	first := fitted(t, classRows(1, 60, 1))
	next := fitted(t, classRows(2, 2000, 1))
	ctx := &countingContext{Context: t.Context()}
	truth, err := CrossLoss(ctx, first, next, classRows(3, 16_000, 1))
	if err != nil || truth.Rows != 16_000 || !(truth.Error > 0 && truth.Error < 0.005) || ctx.n < 16_000/16 {
		t.Fatalf("%+v, %v, with %d pauses", truth, err, ctx.n)
	}
	for _, copies := range []int{1, 10} {
		within := 0
		for seed := range uint64(10) {
			loss, err := CrossLoss(t.Context(), first, next, classRows(10+seed, 1000, copies))
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(loss.Mean-truth.Mean) <= 2*math.Hypot(loss.Error, truth.Error) {
				within++
			}
		}
		if within < 8 {
			t.Errorf("%d copies: %d of 10 losses are within two standard errors", copies, within)
		}
	}
	same, err := CrossLoss(t.Context(), next, next, classRows(4, 1000, 1))
	if err != nil || same.Mean != 0 || same.Error != 0 {
		t.Errorf("a model loses %+v, %v compared with itself", same, err)
	}
	for n := range 2 {
		if none, err := CrossLoss(t.Context(), first, next, classRows(5, n, 1)); err != nil || !math.IsInf(none.Error, 1) {
			t.Errorf("%d rows decide: %+v, %v", n, none, err)
		}
	}
	// Rows of one stretch have no others that may answer.
	if none, err := CrossLoss(t.Context(), first, next, classRows(5, 10, 1)); err != nil || !math.IsInf(none.Error, 1) {
		t.Errorf("neighbours decide: %+v, %v", none, err)
	}
}
