package ipc

import (
	"slices"

	"github.com/embedd/embedd/arrowio/wire"
)

// A Field is a column or a child of a column. For a dictionary-encoded column it describes the indices.
type Field struct {
	Name   string
	Table  int // position of its Field table in the schema's bytes
	Type   int // type number of the format; of the values if dictionary-encoded
	Kind   Kind
	Number Number // of the indices if dictionary-encoded
	Digits uint8  // of a decimal: its precision
	Unit   uint8  // of a date or time: its number in the format
	Width  int    // bytes of a value or of an offset
	Scale  int    // of a decimal
	Size   int    // elements of a fixed-size list
	IDs    []byte // type ids of a union, one per child
	Dict   int    // index into Schema.Dicts, -1 if not dictionary-encoded
	End    int    // index after its last descendant
	Buffer int    // index of its first buffer, not counting the data buffers of views before it
	Views  int    // number of view columns before it
}

// A Layout describes the columns of a batch with their descendants, depth first. The index of a field is also the index
// of its node.
type Layout struct {
	Fields  []Field
	Columns []int // the top-level fields
	Buffers int   // number of buffers without data buffers of views
	Views   int
	Runs    []Run // in their order
}

// A Run is columns of one type of numbers that follow each other, fields First to End-1: nothing needs to be known of
// each to check its nodes and buffers. Short runs are left out.
type Run struct {
	First, End int
	Buffer     int // index of the first buffer; each field has a validity bitmap and its values
	Width      int // of a value in bytes
}

// minRun is the length of the shortest run that is worth an entry.
const minRun = 8

// findRuns sets the runs.
func (l *Layout) findRuns() {
	for k := 0; k < len(l.Columns); {
		r := Run{First: l.Columns[k], End: l.Columns[k]}
		f := &l.Fields[r.First]
		for r.Buffer, r.Width = f.Buffer, f.Width; k < len(l.Columns); k++ {
			if g := &l.Fields[l.Columns[k]]; g.Type != TypeInt && g.Type != TypeFloat || g.Kind != KindFixed || g.Dict >= 0 ||
				g.Number != f.Number {
				break
			}
			r.End++
		}
		if r.End == r.First {
			k++
		} else if r.End-r.First >= minRun {
			l.Runs = append(l.Runs, r)
		}
	}
}

// Describe returns the name of a field's type, with the type of its elements.
func (l *Layout) Describe(i int) string {
	f := &l.Fields[i]
	switch {
	case f.Dict >= 0:
		return "dictionary of " + typeName(f.Type)
	case f.Type == TypeList || f.Type == TypeLargeList || f.Type == TypeFixedList:
		return typeName(f.Type) + " of " + l.Describe(i+1)
	}
	return typeName(f.Type)
}

// same reports whether two layouts have the same physical types.
func (l *Layout) same(m *Layout) bool {
	return slices.EqualFunc(l.Fields, m.Fields, func(a, b Field) bool {
		return a.Type == b.Type && a.Kind == b.Kind && a.Number == b.Number && a.Width == b.Width && a.Scale == b.Scale &&
			a.Digits == b.Digits && a.Unit == b.Unit && a.Size == b.Size &&
			a.Dict == b.Dict && a.End == b.End && slices.Equal(a.IDs, b.IDs)
	})
}

// childCount checks the number of children.
func childCount(f *Field, n int) {
	want := 0
	switch f.Kind {
	case KindList, KindListView, KindFixedList:
		want = 1
	case KindRunEnd:
		want = 2
	case KindStruct:
		want = n
	case KindSparse, KindDense:
		if f.IDs == nil && n <= 128 {
			for i := 0; i < n; i++ {
				f.IDs = append(f.IDs, byte(i)) // without ids, the children are numbered
			}
		}
		want = len(f.IDs)
	}
	if n != want {
		panic(wire.Errorf(wire.Malformed, "a %s field with %d children, not %d", typeName(f.Type), n, want).WithHint(
			"write with an Arrow library"))
	}
}

// childTypes checks the types of the children.
func (l *Layout) childTypes(at int) {
	f := &l.Fields[at]
	switch {
	case f.Type == TypeMap && f.Dict < 0:
		entries := &l.Fields[at+1]
		if entries.Kind != KindStruct || entries.End == at+2 || l.Fields[at+2].End == entries.End ||
			l.Fields[l.Fields[at+2].End].End != entries.End {
			panic(wire.Errorf(wire.Malformed, "a map whose entries are not a struct of key and value").WithHint(
				"write with an Arrow library"))
		}
	case f.Kind == KindRunEnd:
		ends := &l.Fields[at+1]
		if n := ends.Number; n != Int16 && n != Int32 && n != Int64 || ends.Dict >= 0 {
			panic(wire.Errorf(wire.Malformed, "run ends that are not signed integers of 16, 32 or 64 bits").WithHint(
				"write with an Arrow library"))
		}
	}
}
