package main

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
	"github.com/spf13/cobra"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/cmd/embedd/config"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
)

// The layouts of features and their types.
const (
	layoutList    = "list"
	layoutColumns = "columns"
	typeFloat32   = "float32"
	typeFloat64   = "float64"
)

// benchMessage bounds a message: it is what the embedded server takes, but for what stands beside the features.
const benchMessage = 7 << 20

// benchShape is what is measured: messages of so many rows of so many features, projected to so many dimensions.
type benchShape struct {
	Rows     int    `json:"rows"`
	Features int    `json:"features"`
	Dim      int    `json:"dim"`
	Type     string `json:"type"`
	Layout   string `json:"layout"`
}

func (s benchShape) width() int {
	if s.Type == typeFloat64 {
		return 8
	}
	return 4
}

// check says what cannot be measured.
func (s benchShape) check(repeats int) error {
	for _, n := range []struct {
		flag      string
		value     int
		low, high int
	}{{"rows", s.Rows, 1, 100_000}, {"features", s.Features, 2, 4096}, {"dim", s.Dim, 1, min(s.Features, 64)},
		{"repeats", repeats, 1, 100}} {
		if n.value < n.low || n.value > n.high {
			return usagef("bench: --%s %d: want %d to %d", n.flag, n.value, n.low, n.high)
		}
	}
	if bytes := s.Rows * s.Features * s.width(); bytes > benchMessage {
		return usagef("bench: a message of %d rows has %d bytes, and at most %d can be sent: give fewer rows, at most %d",
			s.Rows, bytes, benchMessage, benchMessage/(s.Features*s.width()))
	}
	return nil
}

// ratio is one line of the report: ours beside a scale that was measured in turns with it.
type ratio struct {
	benchShape
	What    string   `json:"what"`
	Unit    string   `json:"unit"`
	Ours    float64  `json:"ours"`
	Beside  string   `json:"beside"`
	Scale   float64  `json:"scale"`
	Ratio   float64  `json:"ratio"` // the median of the turns' ratios
	Goal    *float64 `json:"goal,omitempty"`
	AtMost  bool     `json:"at_most,omitempty"` // the goal is an upper bound
	Met     *bool    `json:"met,omitempty"`
	Repeats int      `json:"repeats"`
}

// aim gives a ratio its goal and the verdict.
func (r *ratio) aim(goal float64, atMost bool) {
	met := r.Ratio >= goal
	if atMost {
		met = r.Ratio <= goal
	}
	r.Goal, r.AtMost, r.Met = &goal, atMost, &met
}

func benchCommand(e *env) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "measure a shape on this machine: messages beside a relay, rows beside memory, fits beside a product",
		Long: "Measure one shape of message on this machine, as ratios: the pipeline beside a relay that answers the same messages\n" +
			"with as many bytes and does nothing with them, the projection beside reading the rows from memory, fits beside a\n" +
			"product of matrices by gonum, X'X. Server, file storage and all that is measured are in this process, and take turns.\n" +
			"A line is of the turn whose ratio is the median, which other work on the machine moves less than a figure of its own."}
	f := flagsOf(cmd)
	s := benchShape{}
	f.IntVar(&s.Rows, "rows", 1024, "`NUMBER` of rows in a message")
	f.IntVar(&s.Features, "features", 256, "`NUMBER` of features of a row")
	f.IntVar(&s.Dim, "dim", 8, "`NUMBER` of outputs of a row")
	kind := f.choice("type", "`TYPE` of the features", typeFloat32, typeFloat64)
	layout := f.choice("layout", "`FORM` of the features: one column that holds lists, or a column each", layoutList, layoutColumns)
	repeats := f.Int("repeats", 5, "`NUMBER` of turns, of which the median is taken; fewer where they take long")
	out := f.output(e)
	f.BoolVar(&out.json, "json", false, "the same as --format json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s.Type, s.Layout = *kind, *layout
		if err := s.check(*repeats); err != nil {
			return err
		}
		paceGarbage(&config.Config{Memory: 8 * benchMemory}) // as the daemon does
		return bench{s, *repeats, newProgress(e), out}.run(cmd.Context())
	}
	return cmd
}

// bench measures one shape.
type bench struct {
	shape   benchShape
	repeats int
	show    *progress
	out     *output
}

// How long the turns of the pipeline, and those of each other line, may take: no turn begins that would end later, but
// for the first, so that all end within half a minute unless one turn takes longer.
const (
	pipelineWait = 10 * time.Second
	lineWait     = 4 * time.Second
)

func (b bench) run(ctx context.Context) error {
	defer b.show.end()
	rows := b.shape.rows(rand.New(rand.NewPCG(1, 2)))
	fitted, err := b.shape.model(ctx, rows)
	if err != nil {
		return fmt.Errorf("bench: fitting a model to measure with: %w", err)
	}
	var all []ratio
	for _, section := range []func(context.Context, *model.Model) ([]ratio, error){b.pipeline, b.kernel, b.fits} {
		some, err := section(ctx, fitted)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		for i := range some {
			some[i].benchShape = b.shape
			if b.out.json {
				if err := b.out.object(some[i]); err != nil {
					return err
				}
			}
		}
		all = append(all, some...)
	}
	b.show.end()
	return b.print(all)
}

func (b bench) print(all []ratio) error {
	if b.out.json {
		return nil
	}
	s := b.shape
	b.out.printf("%d rows x %d features (%s, %s) to %d dimensions\n", s.Rows, s.Features, s.Type, s.Layout, s.Dim)
	t := b.out.table("WHAT", "OURS", "BESIDE", "", "UNIT", "RATIO", "TURNS", "GOAL", "")
	for _, r := range all {
		goal, verdict := "-", ""
		if r.Goal != nil {
			goal, verdict = fmt.Sprintf(">= %g", *r.Goal), "missed"
			if r.AtMost {
				goal = fmt.Sprintf("<= %g", *r.Goal)
			}
			if *r.Met {
				verdict = "met"
			}
		}
		t.row(r.What, figure(r.Ours), r.Beside, figure(r.Scale), r.Unit, fmt.Sprintf("%.3f", r.Ratio), strconv.Itoa(r.Repeats), goal, verdict)
	}
	return t.flush()
}

// figure writes a number with three digits at least.
func figure(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// turns lets two contestants take turns, each first as often as the other, and returns what each took in each turn. Of
// the first, in which memory is taken and caches fill, nothing is kept. Where repeats would take longer than wait, there
// are fewer.
func (b bench) turns(ctx context.Context, phase string, wait time.Duration,
	ours, scale func() (float64, error)) (took [2][]float64, err error) {
	begin := time.Now()
	for i := range b.repeats + 1 {
		if spent := time.Since(begin); i > 1 && spent+spent/time.Duration(i) > wait {
			break
		}
		for k := range 2 {
			b.show.show(phase, float64(2*i+k)/float64(2*b.repeats+2))
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

// compare makes a line of what two contestants took: how fast ours was, as amount in the time it took. It is the turn
// whose ratio is the median, so that the figures are those that the ratio is of.
func compare(what, unit, beside string, took [2][]float64, amount [2]float64) ratio {
	turns := make([]ratio, len(took[0]))
	for i := range turns {
		r := &turns[i]
		r.Ours, r.Scale = amount[0]/took[0][i], amount[1]/took[1][i]
		r.Ratio = r.Ours / r.Scale
	}
	slices.SortFunc(turns, func(x, y ratio) int { return cmp.Compare(x.Ratio, y.Ratio) })
	r := turns[(len(turns)-1)/2]
	r.What, r.Unit, r.Beside, r.Repeats = what, unit, beside, len(turns)
	return r
}

// rows are the features of one message, by row.
func (s benchShape) rows(r *rand.Rand) []float64 {
	x := make([]float64, s.Rows*s.Features)
	for i := range x {
		x[i] = float64(int(r.NormFloat64()*64)) / 64
	}
	return x
}

// features are the names of the columns, as a decoder gives the elements.
func (s benchShape) features() []string {
	names := make([]string, s.Features)
	for j := range names {
		names[j] = "x" + strconv.Itoa(j)
		if s.Layout == layoutList {
			names[j] = fmt.Sprintf("x[%d]", j)
		}
	}
	return names
}

// model is a model of that shape: what it was fitted on changes nothing in what it costs.
func (s benchShape) model(ctx context.Context, x []float64) (*model.Model, error) {
	r := rand.New(rand.NewPCG(3, 4))
	d := &model.Data{N: max(64, 2*s.Dim), M: s.Features, Features: s.features()}
	for i := range d.N * d.M {
		d.X = append(d.X, x[i%len(x)]+r.NormFloat64())
	}
	return fit.Fit(ctx, d, fit.Config{Method: "pca", Dim: s.Dim})
}

// spec names the columns of a message.
func (s benchShape) spec() arrowio.Spec { return arrowio.Spec{Features: []string{"x*"}} }

// message is a message with a number a row beside the features.
func (s benchShape) message(x []float64) ([]byte, error) {
	var number arrow.DataType = arrow.PrimitiveTypes.Float32
	if s.Type == typeFloat64 {
		number = arrow.PrimitiveTypes.Float64
	}
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}}
	if s.Layout == layoutList {
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
		if s.Type == typeFloat64 {
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
