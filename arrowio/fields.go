package arrowio

import (
	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// A Field is a top-level column of a message.
type Field struct {
	Name    string
	Holds   string // content in one or two words, the same for all formats: number, text, date, nested ...
	Feature bool
	Empty   bool // no row has a value
}

// Fields returns the top-level columns in their order.
func (m *Message) Fields() []Field {
	p := m.plan
	fields := make([]Field, 0, len(p.schema.Layout.Columns))
	for _, i := range p.schema.Layout.Columns {
		f := Field{Name: p.schema.Layout.Fields[i].Name, Holds: p.holds(i), Feature: p.taken[i], Empty: true}
		for _, b := range m.batches {
			rows, nulls := b.data.Node(i)
			f.Empty = f.Empty && (nulls == rows || p.schema.Layout.Fields[i].Kind == ipc.KindNull)
		}
		fields = append(fields, f)
	}
	return fields
}

// holds returns the content of a column as users see it: string, large string, string view and dictionaries of them are
// all text.
func (p *plan) holds(i int) string {
	f := &p.schema.Layout.Fields[i]
	value, _, ok := p.numeric(i)
	switch {
	case ok && value == i:
		return "number"
	case ok:
		return "list of numbers"
	}
	switch f.Type { // the type of the values, for a dictionary
	case ipc.TypeUtf8, ipc.TypeLargeUtf8, ipc.TypeUtf8View:
		return "text"
	case ipc.TypeBinary, ipc.TypeLargeBinary, ipc.TypeBinaryView, ipc.TypeFixedBinary:
		return "binary"
	case ipc.TypeList, ipc.TypeLargeList, ipc.TypeFixedList, ipc.TypeListView, ipc.TypeLargeListView:
		return "list"
	case ipc.TypeStruct, ipc.TypeMap, ipc.TypeUnion, ipc.TypeRunEnd:
		return "nested"
	}
	return p.schema.Layout.Describe(i)
}
