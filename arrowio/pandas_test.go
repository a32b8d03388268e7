package arrowio

import (
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// TestIndexOfPandas: the index that pandas stores is no feature of "*", but one if it is named or in a contract.
func TestIndexOfPandas(t *testing.T) {
	message := func(pandas string) []byte {
		meta := arrow.NewMetadata([]string{"other", "pandas"}, []string{"x", pandas})
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float64},
			{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, &meta)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer b.Release()
		b.Field(0).(*array.Float64Builder).Append(1)
		b.Field(1).(*array.Int64Builder).Append(7)
		rec := b.NewRecord()
		defer rec.Release()
		msg, err := FromRecords(schema, rec)
		if err != nil {
			t.Fatal(err)
		}
		return msg
	}
	both := []string{"x", "id"}
	contract, err := NewContract(both, "", "")
	if err != nil {
		t.Fatal(err)
	}
	const index = `{"index_columns": ["id", {"kind": "range"}], "columns": []}`
	for _, c := range []struct {
		pandas   string
		features []string
		contract *Contract
		want     []string
	}{
		{index, []string{"*"}, nil, []string{"x"}},
		{index, []string{"*"}, contract, both},
		{index, []string{"*", "id"}, nil, both},
		{index, []string{"[xi]*"}, nil, both},
		{`{"index_columns": "id"}`, []string{"*"}, nil, both},
		{`{"index_columns": [[`, []string{"*"}, nil, both},
		{"", []string{"*"}, nil, both},
	} {
		d, err := NewDecoder(Spec{Features: c.features})
		if err != nil {
			t.Fatal(err)
		}
		m, err := d.Decode(message(c.pandas), c.contract)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Contract().Elements(); !slices.Equal(got, c.want) {
			t.Errorf("features %q, metadata %q: %q, want %q", c.features, c.pandas, got, c.want)
		}
	}
}
