package stage

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/internal/stage/window"
	"github.com/embedd/embedd/plugin/spec"
)

// TestIntakeHint: what is wrong is said from the row on that makes it so.
func TestIntakeHint(t *testing.T) {
	t.Parallel()
	faults := map[string]int{"x": 3, "y": 1}
	for _, c := range []struct {
		name string
		in   intake
		s    spec.Progress
		note string
		want string // "": no hint
	}{
		{"no rows", intake{}, spec.Progress{}, "", ""},
		{"half of the rows are faulty", intake{rows: 8, faulty: 4, features: faults}, spec.Progress{Needed: 100}, "", ""},
		{"most rows are faulty", intake{rows: 7, faulty: 4, features: faults}, spec.Progress{Needed: 100}, "",
			`4 of 7 rows have a missing or infinite feature, most often "x" in 3`},
		{"all rows are faulty", intake{rows: 4, faulty: 4, features: faults}, spec.Progress{Needed: 100}, "",
			"all of 4 rows"},
		{"no labels", intake{rows: 4, unlabelled: 4}, spec.Progress{Needed: 100}, "", "none of 4 rows has a label"},
		{"one label", intake{rows: 4, unlabelled: 3}, spec.Progress{Needed: 100, Rows: 1, Classes: 2}, "", ""},
		{"one class", intake{rows: 4}, spec.Progress{Needed: 100, Rows: 4, Classes: 1}, "",
			"all 4 labelled rows are of one class"},
		{"a label for each row", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 9, Classes: 5}, "",
			"9 labelled rows have 5 labels"},
		{"classes of two rows", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 10, Classes: 5}, "x", ""},
		{"just enough rows", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 8, Classes: 5}, "x", ""},
		{"rare classes from the first moment", intake{rows: 9},
			spec.Progress{Needed: 8, Rows: 8, Classes: 4, RareClassRows: 1}, "",
			"1 of 8 labelled rows have labels that occur only a few times"},
		{"classes appear from the first moment", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 8, Classes: 4}, "",
			"classes are still appearing (4 now), or labels come in runs: the first model waits for up to 32 rows"},
		{"too few rows", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 7, Classes: 4, RareClassRows: 2}, "", ""},
		{"another note", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 8, Classes: 4}, "x", ""},
		{"rare classes", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 9, Classes: 4, RareClassRows: 2}, "",
			"2 of 9 labelled rows have labels that occur only a few times"},
		{"classes appear", intake{rows: 9}, spec.Progress{Needed: 8, Rows: 9, Classes: 4, RareClassRows: 1}, "",
			"classes are still appearing (4 now)"},
	} {
		got := c.in.hint(spec.Status{Progress: c.s, Note: c.note}, "label")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestFaultyFeaturesAreCounted: rows are counted by their first faulty feature, for 64 features at most.
func TestFaultyFeaturesAreCounted(t *testing.T) {
	s := newStage(t, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.FixedSizeListOf(100, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil))
	defer b.Release()
	for i := range 200 { // features 0 to 99, each twice
		list := b.Field(0).(*array.FixedSizeListBuilder)
		list.Append(true)
		for j := range 100 {
			list.ValueBuilder().(*array.Float32Builder).Append(float32(map[bool]float64{true: math.NaN()}[j >= i%100]))
		}
		b.Field(1).(*array.StringBuilder).Append("c")
	}
	rec := b.NewRecord()
	defer rec.Release()
	m, err := s.FromRecord(rec)
	if err != nil {
		t.Fatal(err)
	}
	var in intake
	in.count(m, s.config, 0)
	if in.rows != 200 || in.faulty != 200 || in.unlabelled != 0 || len(in.features) != 64 {
		t.Errorf("%d of %d rows are faulty, %d without a label; %d features", in.faulty, in.rows, in.unlabelled,
			len(in.features))
	}
	for name, n := range in.features {
		if n != 2 {
			t.Errorf("feature %s in %d rows", name, n)
		}
	}
}

// TestMemoryOfQueuedRows: what is counted for a queued row besides its features is the row, and little more.
func TestMemoryOfQueuedRows(t *testing.T) {
	if size := int(unsafe.Sizeof(window.Row{})); rowOverhead < size || rowOverhead > 2*size {
		t.Errorf("a row takes %d bytes, and %d are counted", size, rowOverhead)
	}
}
