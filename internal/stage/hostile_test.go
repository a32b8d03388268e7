package stage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/score"
	"github.com/embedd/embedd/plugin/spec"
)

// world generates rows of 8 classes in 32 features: the means differ in 10 directions, and 6 directions have three
// times as much noise and no information, so that a model that ignores the noise is worse.
type world struct {
	*rand.Rand
	means [8][32]float64
	loud  [6][32]float64
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
	for c := range w.means {
		for j := range 10 {
			w.means[c][j] = 1.1 * w.NormFloat64()
		}
	}
	for k := range w.loud {
		for j := range w.loud[k] {
			w.loud[k][j] = 3 * w.NormFloat64() / math.Sqrt(32)
		}
	}
	return w
}

func (w *world) row() row64 {
	c := w.IntN(8)
	r := row64{make([]float64, 32), fmt.Sprint("c", c)}
	for j := range r.x {
		r.x[j] = w.means[c][j] + w.NormFloat64()
	}
	for _, loud := range w.loud {
		f := w.NormFloat64()
		for j := range r.x {
			r.x[j] += 2 * f * loud[j]
		}
	}
	return r
}

type row64 struct {
	x     []float64
	class string
}

// hostile changes a row in one of the ways that are open to a publisher; n counts them.
func (w *world) hostile(r row64, n int) row64 {
	switch n % 12 {
	case 0, 1, 2: // one feature far away, by any magnitude
		r.x[w.IntN(32)] = []float64{1, -1}[w.IntN(2)] * math.Pow(10, 2+36*w.Float64())
	case 3: // several, in one direction, of one class
		for j := range 8 {
			r.x[j*4] = 1e5
		}
		r.class = "c0"
	case 4: // past what can be squared
		r.x[w.IntN(32)] = 1e37
		r.x[w.IntN(32)] = -1e37
	case 5: // a separate label, far away
		r.x[3], r.class = 1e9, fmt.Sprint("once", n)
	case 6: // a separate label
		r.class = fmt.Sprint("junk", n)
	case 7, 8: // labels of two or three rows
		r.class = fmt.Sprint("few", n/30)
	case 9:
		for j := range r.x {
			r.x[j] = math.SmallestNonzeroFloat64 * float64(1+j%2)
		}
	case 10: // rows that are all equal
		for j := range r.x {
			r.x[j] = 42
		}
		r.class = "c3"
	case 11: // a wrong label
		r.class = fmt.Sprint("c", w.IntN(8))
	}
	return r
}

func record64(rows []row64) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(32, arrow.PrimitiveTypes.Float64)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for _, r := range rows {
		list.Append(true)
		list.ValueBuilder().(*array.Float64Builder).AppendValues(r.x, nil)
		b.Field(1).(*array.StringBuilder).Append(r.class)
	}
	return b.NewRecord()
}

// TestHostile: with one hostile row in a hundred, of many kinds, the accuracy of the live model at the end is within
// two points of a run without those rows. With EMBEDD_SOAK=1 it is 300,000 rows and more methods, some minutes.
func TestHostile(t *testing.T) {
	n, methods := 4000, []string{"lda"}
	if testsize.Soak() {
		n, methods = 300_000, []string{"lda", "lda behind landmarks", "sle", "lfda", "pca"}
	}
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			var right [2]float64
			var s [2]*Stage
			for k, share := range []int{0, 100} {
				s[k] = newStage(t, func(c *spec.Config) {
					c.Fit.Dim, c.Training = 7, spec.Training{}
					var behind bool
					if c.Fit.Method, _, behind = strings.Cut(method, " behind "); behind {
						c.Fit.Landmarks = 100
					}
					c.Spec = arrowio.Spec{Features: []string{"x"}, Label: "label"}
				})
				w, spoil, bad := newWorld(5), newWorld(6), 0
				for at := 0; at < n; at += 100 {
					rows := make([]row64, 0, 100)
					for range 100 {
						r := w.row()
						if share > 0 && spoil.IntN(share) == 0 {
							rows = append(rows, spoil.hostile(row64{slices.Clone(r.x), r.class}, bad))
							bad++
						}
						rows = append(rows, r)
					}
					rec := record64(rows)
					m, err := s[k].FromRecord(rec)
					if err != nil {
						t.Fatal(err)
					}
					if err := s[k].Learn(m, spec.Position{Seq: uint64(at/100 + 1), Time: time.Unix(int64(at), 0)}); err != nil {
						t.Fatal(err)
					}
					waitIdle(t, s[k])
					rec.Release()
				}
				right[k] = accuracyOf(t, s[k].Live().Model, newWorld(5))
				st := s[k].Status()
				t.Logf("1 in %d of %d rows hostile, %d of them: %.1f%% right; %d rows of %d classes, %d sparse, %d far, %d "+
					"alarms, epoch %d, of %d rows",
					share, n, bad, 100*right[k], st.Rows, st.Classes, st.RareClassRows, st.Outliers, st.Alarms, st.Live.Epoch,
					st.Live.Model.Rows())
			}
			if !(right[1] >= right[0]-0.02) {
				t.Errorf("%.1f%% right after hostile rows, %.1f%% without", 100*right[1], 100*right[0])
			}
		})
	}
}

// accuracyOf returns the 1-NN accuracy of 2,000 fresh rows in the outputs of a model, with 2,000 others as references.
func accuracyOf(t *testing.T, m *model.Model, w *world) float64 {
	t.Helper()
	w.Rand = rand.New(rand.NewPCG(77, 77)) // the same means
	var y [2][]float64
	var class [2][]string
	for k := range y {
		var x []float64
		for range 2000 {
			r := w.row()
			x, class[k] = append(x, r.x...), append(class[k], r.class)
		}
		y[k] = project(t, m, &model.Data{X: x, N: 2000})
	}
	nearest, err := score.Nearest(t.Context(), y[0], 2000, y[1], 2000, m.Dim())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, at := range nearest {
		n += b2i(class[0][at] == class[1][i])
	}
	return float64(n) / 2000
}
