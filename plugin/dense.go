package plugin

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model"
)

// FromDense copies a matrix of gonum, whose rows are rows, into a record for [Stage.FromRecord]: one list column of
// features and, unless label is "", a column of labels, of which "" is none. The caller releases it.
func FromDense(x *mat.Dense, features, label string, labels []string) (arrow.Record, error) {
	if x == nil || x.IsEmpty() {
		return nil, errors.New("the matrix has no columns; give one for each feature")
	}
	n, m := x.Dims()
	if label != "" && len(labels) != n {
		return nil, fmt.Errorf("a matrix of %d rows with %d labels: give one for each row, \"\" for none", n, len(labels))
	}
	if label != "" && label == features {
		return nil, fmt.Errorf("features and labels are both the column %q; give them two names", label)
	}
	fields := []arrow.Field{{Name: features, Type: arrow.FixedSizeListOf(int32(m), arrow.PrimitiveTypes.Float64)}}
	if label != "" {
		fields = append(fields, arrow.Field{Name: label, Type: arrow.BinaryTypes.String, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	lists := b.Field(0).(*array.FixedSizeListBuilder)
	numbers := lists.ValueBuilder().(*array.Float64Builder)
	for i := range n {
		lists.Append(true)
		numbers.AppendValues(x.RawRowView(i), nil)
		switch {
		case label == "":
		case labels[i] == "":
			b.Field(1).AppendNull()
		default:
			b.Field(1).(*array.StringBuilder).Append(labels[i])
		}
	}
	return b.NewRecord(), nil
}

// ToDense copies the outputs of a result into a matrix of gonum, a row for each row of the message. Rows that were
// rejected or skipped are left out.
func ToDense(r *Result) *mat.Dense {
	var kept []float32
	dim := r.Reduced.Dim
	for i, y := range r.Reduced.Y {
		var drop []int
		if i < len(r.Reduced.Drop) {
			drop = r.Reduced.Drop[i]
		}
		for row := range len(y) / dim {
			if len(drop) > 0 && drop[0] == row {
				drop = drop[1:]
				continue
			}
			kept = append(kept, y[row*dim:(row+1)*dim]...)
		}
	}
	return model.ToDense(kept, dim)
}
