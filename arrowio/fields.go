package arrowio

// A Field is a top-level column of a message and what it was taken for.
type Field struct {
	Name    string
	Holds   string // what is in it, in a word or two that are the same in every format: number, text, date, nested ...
	Feature bool
	Empty   bool // no row has a value
}

// Fields returns the top-level columns in their order.
func (m *Message) Fields() []Field {
	p := m.plan
	fields := make([]Field, 0, len(p.schema.layout.columns))
	for _, i := range p.schema.layout.columns {
		f := Field{Name: p.schema.layout.fields[i].name, Holds: p.holds(i), Feature: p.taken[i], Empty: true}
		for _, b := range m.batches {
			rows, nulls := b.node(i)
			f.Empty = f.Empty && (nulls == rows || p.schema.layout.fields[i].kind == kindNull)
		}
		fields = append(fields, f)
	}
	return fields
}

// holds names what is in a column as its reader sees it, not as it is laid out: three kinds of strings, and a
// dictionary of them, are text.
func (p *plan) holds(i int) string {
	f := &p.schema.layout.fields[i]
	value, _, ok := p.numeric(i)
	switch {
	case ok && value == i:
		return "number"
	case ok:
		return "list of numbers"
	}
	switch f.typ { // of the values, where there is a dictionary
	case typeUtf8, typeLargeUtf8, typeUtf8View:
		return "text"
	case typeBinary, typeLargeBinary, typeBinaryView, typeFixedBinary:
		return "binary"
	case typeList, typeLargeList, typeFixedList, typeListView, typeLargeListView:
		return "list"
	case typeStruct, typeMap, typeUnion, typeRunEnd:
		return "nested"
	}
	return p.schema.layout.describe(i)
}
