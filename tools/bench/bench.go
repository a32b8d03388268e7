// Package bench measures one shape of message on this machine, for `embedd bench`: each figure is a ratio to a baseline
// that was measured in turns with it.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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
	TypeFloat16   = "float16"
	TypeInt16     = "int16"
	TypeInt8      = "int8"
)

// numbers has the Arrow type of each type of features.
var numbers = map[string]arrow.FixedWidthDataType{
	TypeFloat32: &arrow.Float32Type{}, TypeFloat64: &arrow.Float64Type{}, TypeFloat16: &arrow.Float16Type{},
	TypeInt16: &arrow.Int16Type{}, TypeInt8: &arrow.Int8Type{},
}

// narrow has the format of each type of one or two bytes.
var narrow = map[string]model.RawFormat{
	TypeFloat16: model.RawFloat16, TypeInt16: model.RawInt16, TypeInt8: model.RawInt8,
}

// maxMessage bounds a message: what the embedded server accepts, less some room for what surrounds the features.
const maxMessage = 7 << 20

// Shape is the shape of the messages that are measured, and the number of dimensions to which they are projected.
type Shape struct {
	Rows     int    `json:"rows"`
	Features int    `json:"features"`
	Dim      int    `json:"dim"`
	Type     string `json:"type"`
	Layout   string `json:"layout"`
	Method   string `json:"method,omitempty"` // of a given model; "": a pca of the shape is measured

	names       []string  // of the features of a given model
	mean, scale []float64 // of these
}

// SetModel makes it the shape of messages for a model.
func (s *Shape) SetModel(m *model.Model) error {
	if n := m.Note(); len(n.Categories)+len(n.Dates) > 0 {
		return errors.New("the model has features of categories or dates, which are not measured: give a model of numbers")
	}
	s.Features, s.Dim, s.Method = m.M(), m.Dim(), m.Method()
	s.names, s.mean, s.scale = m.Features(), m.Mean(), m.Scale()
	return nil
}

// width is the number of bytes of a feature.
func (s Shape) width() int { return numbers[s.Type].Bytes() }

// Check returns an error if the shape cannot be measured.
func (s Shape) Check(repeats int) error {
	type bound struct {
		flag      string
		value     int
		low, high int
	}
	bounds := []bound{{"rows", s.Rows, 1, 100_000}, {"features", s.Features, 2, 4096}, {"repeats", repeats, 1, 100}}
	if s.Method == "" {
		bounds = append(bounds, bound{"dim", s.Dim, 1, min(s.Features, 64)})
	}
	for _, n := range bounds {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("--%s %d: want %d to %d", n.flag, n.value, n.low, n.high)
		}
	}
	isElement := func(name string) bool { return strings.HasSuffix(name, "]") }
	if s.Layout == LayoutColumns && slices.ContainsFunc(s.names, isElement) {
		return errors.New("--layout columns: features of the model are elements of a list: leave out --layout")
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

// Run measures a shape in up to repeats turns, with the given model; nil: with a pca of that shape. It calls show with
// its progress and emit with each line of the report as soon as it is known.
func Run(ctx context.Context, shape Shape, given *model.Model, repeats int, show func(phase string, done float64),
	emit func(Ratio) error) error {
	b, fitted := run{shape, repeats, show}, given
	if fitted == nil {
		var err error
		if fitted, err = b.shape.model(ctx, b.shape.rows(rand.New(rand.NewPCG(1, 2)))); err != nil {
			return fmt.Errorf("fitting the model: %w", err)
		}
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

// rows generates the features of one message, by row: about as far from zero, or from the means of a given model, as
// its features are.
func (s Shape) rows(r *rand.Rand) []float64 {
	x := make([]float64, s.Rows*s.Features)
	for i := range x {
		v := float64(int(r.NormFloat64()*64)) / 64
		switch j := i % s.Features; {
		case s.mean != nil:
			v = s.mean[j] + s.scale[j]*v
		case s.Type == TypeInt8 || s.Type == TypeInt16:
			v *= 32
		}
		x[i] = s.nearest(v)
	}
	return x
}

// nearest is a number that the type can hold: whole and within the range of an integer, finite as a float16.
func (s Shape) nearest(v float64) float64 {
	switch s.Type {
	case TypeInt8:
		return math.Round(min(max(v, math.MinInt8), math.MaxInt8))
	case TypeInt16:
		return math.Round(min(max(v, math.MinInt16), math.MaxInt16))
	case TypeFloat16:
		const largest = 65504
		return min(max(v, -largest), largest)
	}
	return v
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

// spec names the columns of a message. A list column of the size of a given model has its features.
func (s Shape) spec() arrowio.Spec {
	switch {
	case s.names == nil:
		return arrowio.Spec{Features: []string{"x*"}}
	case s.Layout == LayoutList:
		return arrowio.Spec{Features: []string{"x"}, Sizes: map[string]int{"x": s.Features}}
	}
	sizes := map[string]int{}
	for _, name := range s.names {
		sizes[name] = 1
	}
	return arrowio.Spec{Features: s.names, Sizes: sizes}
}

// column is the name of a feature that has a column of its own.
func (s Shape) column(j int) string {
	if s.names != nil {
		return s.names[j]
	}
	return "x" + strconv.Itoa(j)
}

// message returns a record of an id column and the features. x has the features of each row.
func (s Shape) message(x []float64) (arrow.Record, error) {
	number := numbers[s.Type]
	id := "id"
	for slices.Contains(s.names, id) {
		id += "_"
	}
	fields := []arrow.Field{{Name: id, Type: arrow.PrimitiveTypes.Int32}}
	if s.Layout == LayoutList {
		fields = append(fields, arrow.Field{Name: "x", Type: arrow.FixedSizeListOf(int32(s.Features), number)})
	} else {
		for j := range s.Features {
			fields = append(fields, arrow.Field{Name: s.column(j), Type: number})
		}
	}
	build := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer build.Release()
	for i := range s.Rows {
		build.Field(0).(*array.Int32Builder).Append(int32(i))
		list, lists := build.Field(1).(*array.FixedSizeListBuilder)
		if lists {
			list.Append(true)
		}
		for j, v := range x[i*s.Features : (i+1)*s.Features] {
			var to array.Builder
			if lists {
				to = list.ValueBuilder()
			} else {
				to = build.Field(1 + j)
			}
			// every builder parses text
			if err := to.AppendValueFromString(strconv.FormatFloat(v, 'f', -1, 64)); err != nil {
				return nil, err
			}
		}
	}
	return build.NewRecord(), nil
}
