package stage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/embedd/embedd/plugin/spec"
)

// TestBadRows: rows from which no model can be fitted are reported with cause and fix, with and without a live model,
// and the live model stays accurate.
func TestBadRows(t *testing.T) {
	for _, c := range []struct {
		name string
		rows func(r *rand.Rand) []row
		want []string // of the status before a first model
	}{
		{"one class only", func(r *rand.Rand) []row { return clouds(r, 400, 1) },
			[]string{"all 400 labelled rows are of one class", `column "label"`}},
		{"no labels", func(r *rand.Rand) []row {
			rows := clouds(r, 400, 3)
			for i := range rows {
				rows[i].class = ""
			}
			return rows
		}, []string{"none of 400 rows has a label", `column "label"`, "pca"}},
		{"a feature that is never there", func(r *rand.Rand) []row {
			rows := clouds(r, 400, 3)
			for i := range rows {
				rows[i].x[3] = float32(math.NaN())
			}
			return rows
		}, []string{"all of 400 rows", `"x[3]" in 400`, "schema.nulls"}},
		{"a label for each row", func(r *rand.Rand) []row {
			rows := clouds(r, 3000, 3)
			for i := range rows {
				rows[i].class = fmt.Sprint("id", i)
			}
			return rows
		}, []string{"1000 labels", `column "label"`}},
		{"rows that are all alike", func(r *rand.Rand) []row {
			rows := clouds(r, 400, 3)
			for i := range rows {
				rows[i].x = make([]float32, testFeatures)
			}
			return rows
		}, []string{"no feature varies"}},
		{"features of 1e30", func(r *rand.Rand) []row {
			rows := clouds(r, 400, 3)
			for i := range rows {
				rows[i].x[i%testFeatures] *= 1e30
			}
			return rows
		}, nil},
		{"a class of one row far away", func(r *rand.Rand) []row {
			rows := clouds(r, 400, 3)
			rows[0] = row{[]float32{3e38, -3e38, 3e38, 0, 0, 0}, "once"}
			return rows
		}, nil},
		{"rows that no model can project", func(r *rand.Rand) []row {
			rows := clouds(r, 400, 3)
			for i := range rows {
				if i%8 == 0 { // a fifth of them is held out, and stays among the references
					rows[i].x[i/8%testFeatures] = 3e38
				}
			}
			return rows
		}, nil},
		{"one class first", func(r *rand.Rand) []row { return append(clouds(r, 300, 1), clouds(r, 300, 3)...) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(61, 62))
			s := newStage(t, nil)
			learnRows(t, s, 1, c.rows(r))
			st := s.Status()
			if c.want == nil && st.Live == nil {
				t.Errorf("no model: %+v", st)
			}
			for _, want := range c.want {
				if st.Live != nil || !strings.Contains(st.Hint+" "+st.Note, want) {
					t.Errorf("live %v, the status says %q and %q, not %q", st.Live, st.Hint, st.Note, want)
				}
			}
			s = newStage(t, nil)
			learnRows(t, s, 1, clouds(r, 1000, 3))
			before := s.Live()
			learnRows(t, s, 100, c.rows(r))
			learnRows(t, s, 1000, clouds(r, 1500, 3))
			st = s.Status()
			if st.Live.Model.Dim() != before.Model.Dim() || !(st.Accuracy > 0.9) {
				t.Errorf("afterwards: %+v", st)
			}
		})
	}
}

// TestFarRows: rows of float64 whose projections exceed float32, and whose squares exceed float64, are among the
// references and the scored rows; they do not count, and training continues with the others.
func TestFarRows(t *testing.T) {
	for _, method := range []string{"lda", "pca"} {
		s := newStage(t, func(c *spec.Config) {
			c.Fit.Method = method
			if method == "pca" {
				c.Spec.Label = ""
			}
		})
		r := rand.New(rand.NewPCG(63, 64))
		send := func(seq uint64, rows []row, far float64) {
			b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
				{Name: "x", Type: arrow.FixedSizeListOf(testFeatures, arrow.PrimitiveTypes.Float64)},
				{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
			defer b.Release()
			list := b.Field(0).(*array.FixedSizeListBuilder)
			for i, row := range rows {
				list.Append(true)
				for j, v := range row.x {
					if i%10 == 0 && j == i%testFeatures && far != 0 {
						list.ValueBuilder().(*array.Float64Builder).Append(far)
					} else {
						list.ValueBuilder().(*array.Float64Builder).Append(float64(v))
					}
				}
				b.Field(1).(*array.StringBuilder).Append(row.class)
			}
			rec := b.NewRecord()
			defer rec.Release()
			m, err := s.FromRecord(rec)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Learn(m, spec.Position{Seq: seq, Time: time.Unix(int64(seq), 0)}); err != nil {
				t.Fatal(err)
			}
			waitIdle(t, s)
		}
		send(1, clouds(r, 600, 3), 0)
		send(2, clouds(r, 300, 3), 1e200)
		seen := func() float64 {
			return inspect(s).Live.Agreement.Last.Rows + inspect(s).Live.Agreement.Before.Rows
		}
		before, least := seen(), map[string]float64{"lda": 0.8, "pca": 0.4}[method]
		send(3, clouds(r, 200, 3), 0)
		if st := s.Status(); !(st.Accuracy > least) || seen() == before {
			t.Errorf("%s: %g rows scored before, %g after 200 more: %+v", method, before, seen(), st)
		}
	}
}
