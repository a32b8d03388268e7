// Package bench measures one shape of message on this machine, for `embedd bench`: each figure is a ratio to a baseline
// that was measured in turns with it.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// Layouts and types of the features.
const (
	LayoutList    = "list"
	LayoutColumns = "columns"
	TypeFloat32   = "float32"
	TypeFloat64   = "float64"
)

// maxMessage bounds a message: what the embedded server accepts, less some room for what surrounds the features.
const maxMessage = 7 << 20

// Shape is the shape of the messages that are measured, and the number of dimensions to which they are projected.
type Shape struct {
	Rows     int    `json:"rows"`
	Features int    `json:"features"`
	Dim      int    `json:"dim"`
	Type     string `json:"type"`
	Layout   string `json:"layout"`
}

func (s Shape) width() int {
	if s.Type == TypeFloat64 {
		return 8
	}
	return 4
}

// Check returns an error if the shape cannot be measured.
func (s Shape) Check(repeats int) error {
	for _, n := range []struct {
		flag      string
		value     int
		low, high int
	}{{"rows", s.Rows, 1, 100_000}, {"features", s.Features, 2, 4096}, {"dim", s.Dim, 1, min(s.Features, 64)},
		{"repeats", repeats, 1, 100}} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("--%s %d: want %d to %d", n.flag, n.value, n.low, n.high)
		}
	}
	if bytes := s.Rows * s.Features * s.width(); bytes > maxMessage {
		return fmt.Errorf("a message of %d rows has %d bytes, more than the %d that can be sent: give fewer rows, at most %d",
			s.Rows, bytes, maxMessage, maxMessage/(s.Features*s.width()))
	}
	return nil
}

// Ratio is one line of the report: our figure compared with a baseline.
type Ratio struct {
	Shape
	What      string   `json:"what"`
	Unit      string   `json:"unit"`
	Ours      float64  `json:"ours"`
	Reference string   `json:"reference"`
	Scale     float64  `json:"scale"`
	Ratio     float64  `json:"ratio"` // median over the turns
	Goal      *float64 `json:"goal,omitempty"`
	AtMost    bool     `json:"at_most,omitempty"` // the goal is an upper bound
	Met       *bool    `json:"met,omitempty"`
	Repeats   int      `json:"repeats"`
}

// aim sets the goal and whether it is met.
func (r *Ratio) aim(goal float64, atMost bool) {
	met := r.Ratio >= goal
	if atMost {
		met = r.Ratio <= goal
	}
	r.Goal, r.AtMost, r.Met = &goal, atMost, &met
}

// run measures one shape.
type run struct {
	shape   Shape
	repeats int
	show    func(phase string, done float64)
}

// pipelineWait and lineWait bound the turns of the pipeline and of each other line: after the first, no turn starts
// that would end later. All of them end within half a minute unless a single turn takes longer.
const (
	pipelineWait = 10 * time.Second
	lineWait     = 4 * time.Second
)

// Run measures a shape in up to repeats turns. It calls show with its progress and emit with each line of the report as
// soon as it is known.
func Run(ctx context.Context, shape Shape, repeats int, show func(phase string, done float64),
	emit func(Ratio) error) error {
	b := run{shape, repeats, show}
	rows := b.shape.rows(rand.New(rand.NewPCG(1, 2)))
	fitted, err := b.shape.model(ctx, rows)
	if err != nil {
		return fmt.Errorf("fitting the model: %w", err)
	}
	for _, section := range []func(context.Context, *model.Model) ([]Ratio, error){b.pipeline, b.kernel, b.fits} {
		lines, err := section(ctx, fitted)
		if err != nil {
			return err
		}
		for _, line := range lines {
			line.Shape = b.shape
			if err := emit(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// turns runs two contestants alternately, each of them first in every other turn, and returns their times. It discards
// the first turn, which allocates memory and fills caches. There are fewer turns if repeats would take longer than
// wait.
func (b run) turns(ctx context.Context, phase string, wait time.Duration,
	ours, scale func() (float64, error)) (took [2][]float64, err error) {
	begin := time.Now()
	for i := range b.repeats + 1 {
		if spent := time.Since(begin); i > 1 && spent+spent/time.Duration(i) > wait {
			break
		}
		for k := range 2 {
			b.show(phase, float64(2*i+k)/float64(2*b.repeats+2))
			which, do := (i+k)%2, ours
			if which == 1 {
				do = scale
			}
			if err := ctx.Err(); err != nil {
				return took, err
			}
			t, err := do()
			if err != nil {
				return took, err
			}
			if i > 0 {
				took[which] = append(took[which], t)
			}
		}
	}
	return took, nil
}

// compare makes a line of the times of two contestants: amount divided by time. It reports the turn with the median
// ratio, so that the ratio belongs to the figures.
func compare(what, unit, reference string, took [2][]float64, amount [2]float64) Ratio {
	turns := make([]Ratio, len(took[0]))
	for i := range turns {
		r := &turns[i]
		r.Ours, r.Scale = amount[0]/took[0][i], amount[1]/took[1][i]
		r.Ratio = r.Ours / r.Scale
	}
	slices.SortFunc(turns, func(x, y Ratio) int { return cmp.Compare(x.Ratio, y.Ratio) })
	r := turns[(len(turns)-1)/2]
	r.What, r.Unit, r.Reference, r.Repeats = what, unit, reference, len(turns)
	return r
}

// rows generates the features of one message, by row.
func (s Shape) rows(r *rand.Rand) []float64 {
	x := make([]float64, s.Rows*s.Features)
	for i := range x {
		x[i] = float64(int(r.NormFloat64()*64)) / 64
	}
	return x
}

// features are the names of the columns as a decoder expands them.
func (s Shape) features() []string {
	names := make([]string, s.Features)
	for j := range names {
		names[j] = "x" + strconv.Itoa(j)
		if s.Layout == LayoutList {
			names[j] = fmt.Sprintf("x[%d]", j)
		}
	}
	return names
}

// model fits a model of that shape. Its cost does not depend on the data.
func (s Shape) model(ctx context.Context, x []float64) (*model.Model, error) {
	r := rand.New(rand.NewPCG(3, 4))
	d := &model.Data{N: max(64, 2*s.Dim), M: s.Features, Features: s.features()}
	for i := range d.N * d.M {
		d.X = append(d.X, x[i%len(x)]+r.NormFloat64())
	}
	return fit.Fit(ctx, d, fit.Config{Method: "pca", Dim: s.Dim})
}

// spec names the columns of a message.
func (s Shape) spec() arrowio.Spec { return arrowio.Spec{Features: []string{"x*"}} }

// message encodes a message: an id column and the features.
func (s Shape) message(x []float64) ([]byte, error) {
	var number arrow.DataType = arrow.PrimitiveTypes.Float32
	if s.Type == TypeFloat64 {
		number = arrow.PrimitiveTypes.Float64
	}
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}}
	if s.Layout == LayoutList {
		fields = append(fields, arrow.Field{Name: "x", Type: arrow.FixedSizeListOf(int32(s.Features), number)})
	} else {
		for j := range s.Features {
			fields = append(fields, arrow.Field{Name: "x" + strconv.Itoa(j), Type: number})
		}
	}
	schema := arrow.NewSchema(fields, nil)
	build := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer build.Release()
	put := func(to array.Builder, v float64) {
		if s.Type == TypeFloat64 {
			to.(*array.Float64Builder).Append(v)
		} else {
			to.(*array.Float32Builder).Append(float32(v))
		}
	}
	for i := range s.Rows {
		build.Field(0).(*array.Int32Builder).Append(int32(i))
		list, lists := build.Field(1).(*array.FixedSizeListBuilder)
		if lists {
			list.Append(true)
		}
		for j, v := range x[i*s.Features : (i+1)*s.Features] {
			if lists {
				put(list.ValueBuilder(), v)
			} else {
				put(build.Field(1+j), v)
			}
		}
	}
	rec := build.NewRecord()
	defer rec.Release()
	return arrowio.FromRecords(schema, rec)
}
