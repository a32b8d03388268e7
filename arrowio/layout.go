package arrowio

import (
	"slices"

	"github.com/embedd/embedd/arrowio/wire"
)

// A field is one column or one child of a column. A dictionary-encoded field is the column of its indices.
type field struct {
	name   string
	table  int // position of its Field table in the schema's bytes
	typ    int // of the format, of the values where dictionary-encoded
	kind   kind
	number number // of the indices where dictionary-encoded
	width  int    // bytes of a value or of an offset
	scale  int    // of a decimal
	size   int    // elements of a fixed-size list
	ids    []byte // type ids of a union, one a child
	dict   int    // index into schema.dicts, -1 when not dictionary-encoded
	end    int    // index after its last descendant
	buffer int    // index of its first buffer, not counting the data buffers of views before it
	views  int    // number of view columns before it
}

// A layout is the columns of a batch with their descendants, depth first: a field's index is its node's index in the
// batch.
type layout struct {
	fields  []field
	columns []int // the top-level fields
	buffers int   // without the data buffers of views
	views   int
}

// describe names a field's type, with what is in it.
func (l *layout) describe(i int) string {
	f := &l.fields[i]
	switch {
	case f.dict >= 0:
		return "dictionary of " + typeName(f.typ)
	case f.typ == typeList || f.typ == typeLargeList || f.typ == typeFixedList:
		return typeName(f.typ) + " of " + l.describe(i+1)
	}
	return typeName(f.typ)
}

// same reports whether two layouts hold values in the same way.
func (l *layout) same(m *layout) bool {
	return slices.EqualFunc(l.fields, m.fields, func(a, b field) bool {
		return a.typ == b.typ && a.kind == b.kind && a.number == b.number && a.width == b.width && a.scale == b.scale &&
			a.size == b.size && a.dict == b.dict && a.end == b.end && slices.Equal(a.ids, b.ids)
	})
}

// childCount checks the number of children that a kind needs.
func childCount(f *field, n int) *Error {
	want := 0
	switch f.kind {
	case kindList, kindListView, kindFixedList:
		want = 1
	case kindRunEnd:
		want = 2
	case kindStruct:
		want = n
	case kindSparse, kindDense:
		if f.ids == nil && n <= 128 {
			for i := 0; i < n; i++ {
				f.ids = append(f.ids, byte(i)) // absent ids number the children
			}
		}
		want = len(f.ids)
	}
	if n != want {
		return fault(wire.Malformed, "a %s field with %d children, not %d", typeName(f.typ), n, want).hint(
			"write with an Arrow library")
	}
	return nil
}

// childTypes checks what a kind asks of its children's types.
func (l *layout) childTypes(at int) *Error {
	f := &l.fields[at]
	switch {
	case f.typ == typeMap && f.dict < 0:
		entries := &l.fields[at+1]
		if entries.kind != kindStruct || entries.end == at+2 || l.fields[at+2].end == entries.end ||
			l.fields[l.fields[at+2].end].end != entries.end {
			return fault(wire.Malformed, "a map whose entries are no struct of key and value").hint(
				"write with an Arrow library")
		}
	case f.kind == kindRunEnd:
		ends := &l.fields[at+1]
		if n := ends.number; n != int16s && n != int32s && n != int64s || ends.dict >= 0 {
			return fault(wire.Malformed, "run ends that are no signed integers of 16, 32 or 64 bits").hint(
				"write with an Arrow library")
		}
	}
	return nil
}
