package stage

import (
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/plugin/spec"
)

// listsOf is a message of labelled rows whose features are two columns of lists of any length; nil is a null.
func listsOf(t testing.TB, a, b [][]float32) []byte {
	list := arrow.ListOf(arrow.PrimitiveTypes.Float32)
	r := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: list, Nullable: true}, {Name: "b", Type: list, Nullable: true},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
	defer r.Release()
	for k, column := range [][][]float32{a, b} {
		for _, x := range column {
			lists := r.Field(k).(*array.ListBuilder)
			if lists.Append(x != nil); x != nil {
				lists.ValueBuilder().(*array.Float32Builder).AppendValues(x, nil)
			}
		}
	}
	for i := range a {
		r.Field(2).(*array.StringBuilder).Append(fmt.Sprint("c", i%2))
	}
	rec := r.NewRecord()
	defer rec.Release()
	msg, err := arrowio.FromRecords(rec.Schema(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// TestListsOfUnknownLength: while no row has said how long a list is there is nothing to learn.
func TestListsOfUnknownLength(t *testing.T) {
	for k, first := range [][2][][]float32{{{nil, nil}, {nil, nil}}, {{{1, 2}, {3, 4}}, {nil, nil}},
		{{nil, nil}, {nil, nil}}, {{{1, 2}, {3, 4}}, {nil, nil}}} {
		s := newStage(t, func(c *spec.Config) {
			c.Spec.Features = []string{"a", "b"}
			if k >= 2 {
				c.Nulls = spec.NullsImpute
			}
		})
		var rows [2][][]float32
		for i := range 300 {
			x := float32(i%2) + float32(i%7)/10
			rows[0], rows[1] = append(rows[0], []float32{x, -x * x}), append(rows[1], []float32{1 - x, 1, float32(i % 5)})
		}
		for seq, msg := range [][]byte{listsOf(t, first[0], first[1]), listsOf(t, rows[0], rows[1])} {
			m, err := s.Decode(msg)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Learn(m, spec.Position{Seq: uint64(seq + 1)}); err != nil {
				t.Fatal(err)
			}
			waitIdle(t, s)
		}
		if st := s.Status(); st.Rows != 300 || st.Live == nil {
			t.Errorf("%+v", st)
		}
	}
}
