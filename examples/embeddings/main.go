// Command embeddings streams sentence embeddings through a stage of embedd, and compares its outputs with other ways to
// make vectors shorter:
//
//	go run ./examples/embeddings [-picture FILE.png]
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/fit"
	"github.com/embedd/embedd/model/score"
	"github.com/embedd/embedd/plugin"
	"github.com/embedd/embedd/tools/picture"
)

//go:embed packages.f16
var vectors []byte

//go:embed packages.csv
var packages string

const (
	width     = 256 // numbers of an embedding
	batchRows = 50  // of a message
)

func main() {
	file := flag.String("picture", "", "`file` for a picture over more lengths")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *file); err != nil {
		fmt.Fprintln(os.Stderr, "embeddings:", err)
		os.Exit(1)
	}
}

// rows are half of the rows, which the stage learns, and two quarters that no model has seen: an index, and queries.
func rows() (learned, index, queries *model.Data, err error) {
	records, err := csv.NewReader(strings.NewReader(packages)).ReadAll()
	if err != nil {
		return nil, nil, nil, err
	}
	d := &model.Data{N: len(records) - 1, M: width}
	for i := range len(vectors) / 2 {
		bits := binary.LittleEndian.Uint16(vectors[2*i:])
		d.X = append(d.X, float64(float16.FromBits(bits).Float32()))
	}
	for _, r := range records[1:] {
		d.Classes = append(d.Classes, r[1])
	}
	slices.Sort(d.Classes)
	d.Classes = slices.Compact(d.Classes)
	for _, r := range records[1:] {
		class, _ := slices.BinarySearch(d.Classes, r[1])
		d.Y = append(d.Y, class)
	}
	half, quarter := d.N/2, d.N/4
	return part(d, 0, half), part(d, half, half+quarter), part(d, half+quarter, d.N), nil
}

func part(d *model.Data, from, to int) *model.Data {
	return &model.Data{N: to - from, M: d.M, X: d.X[from*d.M : to*d.M], Y: d.Y[from:to], Classes: d.Classes}
}

// message returns rows as an Arrow IPC stream with the columns "vector" and "section".
func message(d *model.Data) ([]byte, error) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "vector", Type: arrow.FixedSizeListOf(width, arrow.PrimitiveTypes.Float32)},
		{Name: "section", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for i, y := range d.Y {
		list.Append(true)
		for _, v := range d.X[i*width : (i+1)*width] {
			list.ValueBuilder().(*array.Float32Builder).Append(float32(v))
		}
		b.Field(1).(*array.StringBuilder).Append(d.Classes[y])
	}
	rec := b.NewRecord()
	defer rec.Release()
	return arrowio.FromRecords(schema, rec)
}

// streamed passes rows through a stage, message by message, and returns the model that is live at the end.
func streamed(ctx context.Context, d *model.Data, dim int) (*model.Model, error) {
	stage, err := plugin.New(plugin.Config{
		Spec:     arrowio.Spec{Features: []string{"vector"}, Label: "section"},
		Fit:      fit.Config{Dim: dim, Scale: model.ScaleNone},
		Training: plugin.Training{Every: plugin.Every{Rows: 300}},
	})
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	for at := 0; at < d.N; at += batchRows {
		body, err := message(part(d, at, min(at+batchRows, d.N)))
		if err != nil {
			return nil, err
		}
		msg, err := stage.Decode(body)
		if err != nil {
			return nil, err
		}
		if err := stage.Learn(msg, plugin.Position{}); err != nil {
			return nil, err
		}
		if err := stage.Wait(ctx); err != nil {
			return nil, err
		}
	}
	live := stage.Live()
	if live == nil {
		return nil, fmt.Errorf("no model after %d rows", d.N)
	}
	return live.Model, nil
}

// shortener makes vectors shorter.
type shortener struct {
	name  string
	short func(d *model.Data) ([]float64, error)
	dim   int
}

// quality is how useful the vectors of a shortener are, in %.
type quality struct {
	same    float64 // rows of the query's section among the ten nearest by cosine
	nearest float64 // queries whose section is the most frequent one among the ten nearest
	linear  float64 // queries classified correctly by least squares on the index
}

// raw are the vectors as they are.
var raw = shortener{"raw vectors", func(d *model.Data) ([]float64, error) { return d.X, nil }, width}

// shortenersTo make vectors of dim numbers; the first is embedd.
func shortenersTo(ctx context.Context, learned *model.Data, dim int) []shortener {
	fitted := func(fit func() (*model.Model, error)) func(*model.Data) ([]float64, error) {
		fitOnce := sync.OnceValues(fit)
		return func(d *model.Data) ([]float64, error) {
			m, err := fitOnce()
			if err != nil {
				return nil, err
			}
			return score.Outputs(ctx, m, d)
		}
	}
	random, r := make([]float64, width*dim), rand.New(rand.NewPCG(1, 0))
	for i := range random {
		random[i] = r.NormFloat64()
	}
	return []shortener{
		{"embedd", fitted(func() (*model.Model, error) { return streamed(ctx, learned, dim) }), dim},
		{"PCA", fitted(func() (*model.Model, error) {
			return fit.Fit(ctx, learned, fit.Config{Method: "pca", Dim: dim, Scale: model.ScaleNone})
		}), dim},
		{"truncation", func(d *model.Data) ([]float64, error) { return truncated(d, dim), nil }, dim},
		{"random projection", func(d *model.Data) ([]float64, error) { return projected(d, random, dim), nil }, dim},
	}
}

func truncated(d *model.Data, dim int) (y []float64) {
	for i := range d.N {
		y = append(y, d.X[i*width:i*width+dim]...)
	}
	return y
}

func projected(d *model.Data, random []float64, dim int) []float64 {
	y := make([]float64, d.N*dim)
	for i := range d.N {
		for j, v := range d.X[i*width : (i+1)*width] {
			for k := range dim {
				y[i*dim+k] += v * random[j*dim+k]
			}
		}
	}
	return y
}

// unit divides each row by its length, so that distances order rows by their cosine.
func unit(y []float64, dim int) []float64 {
	y = slices.Clone(y)
	for i := 0; i < len(y); i += dim {
		sum := 0.0
		for _, v := range y[i : i+dim] {
			sum += v * v
		}
		for j := range dim {
			y[i+j] /= math.Sqrt(max(sum, 1e-30))
		}
	}
	return y
}

// retrieval returns the share of the ten nearest rows of the index that are of the query's class, and of queries with
// the class of most of them, in %.
func retrieval(index, queries []float64, dim int, indexY, queryY []int, classes int) (same, right float64) {
	const near = 10
	for q, class := range queryY {
		order, cosine := make([]int, len(indexY)), make([]float64, len(indexY))
		for i := range indexY {
			order[i] = i
			for j := range dim {
				cosine[i] += index[i*dim+j] * queries[q*dim+j]
			}
		}
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(cosine[y], cosine[x]) })
		votes := make([]int, classes)
		for _, i := range order[:near] {
			votes[indexY[i]]++
		}
		same += float64(votes[class]) / near
		if votes[class] == slices.Max(votes) && slices.Index(votes, votes[class]) == class {
			right++
		}
	}
	n := float64(len(queryY))
	return 100 * same / n, 100 * right / n
}

// measure scores the vectors of a shortener.
func (w shortener) measure(index, queries *model.Data) (q quality, err error) {
	ref, err := w.short(index)
	if err != nil {
		return q, err
	}
	asked, err := w.short(queries)
	if err != nil {
		return q, err
	}
	ref, asked = unit(ref, w.dim), unit(asked, w.dim)
	q.same, q.nearest = retrieval(ref, asked, w.dim, index.Y, queries.Y, len(index.Classes))
	classes, err := score.Linear(ref, index.Y, asked, w.dim, len(index.Classes))
	for i, c := range classes {
		if c == queries.Y[i] {
			q.linear += 100 / float64(queries.N)
		}
	}
	return q, err
}

// line is the row of the table.
func (w shortener) line(q quality) string {
	return fmt.Sprintf("| %s | %d | %d | %.1f | %.1f | %.1f |", w.name, w.dim, 4*w.dim, q.same, q.nearest, q.linear)
}

func run(ctx context.Context, out io.Writer, file string) error {
	learned, index, queries, err := rows()
	if err != nil {
		return err
	}
	dims := []int{64, 16}
	if file != "" {
		dims = []int{128, 64, 32, 16, 8, 4}
	}
	fmt.Fprintln(out, "| vectors | numbers | bytes | same section among 10 nearest % | 10-NN % | linear % |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|")
	all := []shortener{raw}
	for _, dim := range dims {
		all = append(all, shortenersTo(ctx, learned, dim)...)
	}
	curves := map[string]plotter.XYs{}
	for _, w := range all {
		q, err := w.measure(index, queries)
		if err != nil {
			return fmt.Errorf("%s, %d: %w", w.name, w.dim, err)
		}
		fmt.Fprintln(out, w.line(q))
		curves[w.name] = append(curves[w.name], plotter.XY{X: float64(4 * w.dim), Y: q.same})
	}
	if file == "" {
		return nil
	}
	p := picture.Panel("of the ten nearest, in the section of the query", "bytes of a vector", "%")
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.ConstantTicks([]plot.Tick{{Value: 16, Label: "16"}, {Value: 64, Label: "64"},
		{Value: 256, Label: "256"}, {Value: 1024, Label: "1024"}})
	p.Legend.Top = false
	curves[raw.name] = append(curves[raw.name], plotter.XY{X: 16, Y: curves[raw.name][0].Y})
	for i, name := range []string{"embedd", raw.name, "PCA", "truncation", "random projection"} {
		if err := picture.AddLine(p, name, curves[name], i, true); err != nil {
			return err
		}
	}
	return picture.Save(file, 1, p)
}
