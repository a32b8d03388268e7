package demo

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/data"
)

// digits are the shipped rows.
type digits struct {
	n           int
	x           []float64 // n x 64
	label       []string
	train, held []int // every second row of a class is held out
}

func (g *digits) all() []int {
	out := make([]int, g.n)
	for i := range out {
		out[i] = i
	}
	return out
}

func readDigits(dir string) (*digits, error) {
	path := filepath.Join(dir, "digits.csv.gz")
	if err := os.WriteFile(path, data.Digits, 0o600); err != nil {
		return nil, err
	}
	r, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	g := &digits{}
	seen := map[string]int{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return nil, err
		}
		at := rec.Schema().FieldIndices("label")[0]
		for i := range int(rec.NumRows()) {
			for j, c := range rec.Columns() {
				if j != at {
					g.x = append(g.x, float64(c.(*array.Int64).Value(i)))
				}
			}
			label := rec.Column(at).ValueStr(i)
			g.label = append(g.label, label)
			if seen[label]++; seen[label]%2 == 1 {
				g.train = append(g.train, g.n)
			} else {
				g.held = append(g.held, g.n)
			}
			g.n++
		}
		rec.Release()
	}
}

// message encodes digits: an id, the label or null, and the pixels as one list column.
func (g *digits) message(rows []int, labelled bool) ([]byte, error) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "label", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "pixels", Type: arrow.FixedSizeListOf(64, arrow.PrimitiveTypes.Float32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list := b.Field(2).(*array.FixedSizeListBuilder)
	pixels := list.ValueBuilder().(*array.Float32Builder)
	for _, i := range rows {
		b.Field(0).(*array.Int32Builder).Append(int32(i))
		if labelled {
			b.Field(1).(*array.StringBuilder).Append(g.label[i])
		} else {
			b.Field(1).AppendNull()
		}
		list.Append(true)
		for _, v := range g.x[i*64 : (i+1)*64] {
			pixels.Append(float32(v))
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	return arrowio.FromRecords(schema, rec)
}
