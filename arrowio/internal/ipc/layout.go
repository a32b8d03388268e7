package ipc

import (
	"slices"

	"github.com/embedd/embedd/arrowio/wire"
)

// A Field is one column or one child of a column. A dictionary-encoded field is the column of its indices.
type Field struct {
	Name   string
	Table  int // position of its Field table in the schema's bytes
	Type   int // of the format, of the values where dictionary-encoded
	Kind   kind
	Number Number // of the indices where dictionary-encoded
	Width  int    // bytes of a value or of an offset
	Scale  int    // of a decimal
	Size   int    // elements of a fixed-size list
	IDs    []byte // type ids of a union, one a child
	Dict   int    // index into schema.dicts, -1 when not dictionary-encoded
	End    int    // index after its last descendant
	Buffer int    // index of its first buffer, not counting the data buffers of views before it
	Views  int    // number of view columns before it
}

// A layout is the columns of a batch with their descendants, depth first: a field's index is its node's index in the
// batch.
type layout struct {
	Fields  []Field
	Columns []int // the top-level fields
	Buffers int   // without the data buffers of views
	Views   int
}

// Describe names a field's type, with what is in it.
func (l *layout) Describe(i int) string {
	f := &l.Fields[i]
	switch {
	case f.Dict >= 0:
		return "dictionary of " + typeName(f.Type)
	case f.Type == TypeList || f.Type == TypeLargeList || f.Type == TypeFixedList:
		return typeName(f.Type) + " of " + l.Describe(i+1)
	}
	return typeName(f.Type)
}

// same reports whether two layouts hold values in the same way.
func (l *layout) same(m *layout) bool {
	return slices.EqualFunc(l.Fields, m.Fields, func(a, b Field) bool {
		return a.Type == b.Type && a.Kind == b.Kind && a.Number == b.Number && a.Width == b.Width && a.Scale == b.Scale &&
			a.Size == b.Size && a.Dict == b.Dict && a.End == b.End && slices.Equal(a.IDs, b.IDs)
	})
}

// childCount checks the number of children that a kind needs.
func childCount(f *Field, n int) *wire.Error {
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
				f.IDs = append(f.IDs, byte(i)) // absent ids number the children
			}
		}
		want = len(f.IDs)
	}
	if n != want {
		return wire.Errorf(wire.Malformed, "a %s field with %d children, not %d", typeName(f.Type), n, want).WithHint(
			"write with an Arrow library")
	}
	return nil
}

// childTypes checks what a kind asks of its children's types.
func (l *layout) childTypes(at int) *wire.Error {
	f := &l.Fields[at]
	switch {
	case f.Type == TypeMap && f.Dict < 0:
		entries := &l.Fields[at+1]
		if entries.Kind != KindStruct || entries.End == at+2 || l.Fields[at+2].End == entries.End ||
			l.Fields[l.Fields[at+2].End].End != entries.End {
			return wire.Errorf(wire.Malformed, "a map whose entries are no struct of key and value").WithHint(
				"write with an Arrow library")
		}
	case f.Kind == KindRunEnd:
		ends := &l.Fields[at+1]
		if n := ends.Number; n != Int16 && n != Int32 && n != Int64 || ends.Dict >= 0 {
			return wire.Errorf(wire.Malformed, "run ends that are no signed integers of 16, 32 or 64 bits").WithHint(
				"write with an Arrow library")
		}
	}
	return nil
}
