package arrowio

import (
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestLongTextsOfEncodedColumns: rows that share a long text of a dictionary cost no copy of it each. A message of some
// kilobytes can have a hundred thousand rows and, compressed, a text of 64 MiB.
func TestLongTextsOfEncodedColumns(t *testing.T) {
	const rows = 1000
	texts, numbers := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt32Builder(memory.DefaultAllocator)
	texts.Append(strings.Repeat("x", 1<<20))
	for range rows {
		numbers.Append(0)
	}
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	column := array.NewDictionaryArray(typ, numbers.NewArray(), texts.NewArray())
	rec := array.NewRecord(arrow.NewSchema([]arrow.Field{{Name: "c", Type: typ}}, nil), []arrow.Array{column}, rows)
	for _, e := range []Encoding{{Column: "c", Values: []string{"xx", "y"}}, {Column: "c"}} {
		d, c := encodedDecoder(t, wire.FormatArrow, e)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := d.FromRecord(rec, c)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if unusable := m.Unseen() + len(m.Batches()[0].Faults()); unusable != rows {
			t.Errorf("%v: %d of %d rows hold no value of the column", e.Values, unusable, rows)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%v: %d MiB were allocated for a message of 1 MiB", e.Values, n>>20)
		}
	}
}
