package arrowio

import (
	"slices"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rowtext"
	"github.com/embedd/embedd/arrowio/wire"
)

// tableRows writes the kept fields of a text message: byte for byte in the format that they came in, otherwise as
// rowtext.AppendAsField and AppendAsValue do.
type tableRows struct {
	t      *rowtext.Table
	keep   []bool // by column
	order  []int  // the kept columns
	isLine bool   // a row of the output is one line, and rows of the input may have several
	quoted [][]byte
	types  []columnType
	cells  []*rowtext.Cell // of a row, by column
}

// columnType is what the values of a CSV column are.
type columnType struct{ isNumber, isBoolean bool }

// newTableRows returns the writer for outputs with further columns of these names.
func newTableRows(e *Encoder, m *Message, output []string) *tableRows {
	t, p := m.table, m.plan
	k := &tableRows{t: t, keep: make([]bool, len(t.Columns)), cells: make([]*rowtext.Cell, len(t.Columns)),
		isLine: e.out.Format == wire.FormatNDJSON && t.Shape != rowtext.Lines}
	for i := range t.Columns {
		name := t.Columns[i].Name
		field := p.index[name]
		if k.keep[i] = e.keeps(p, field); !k.keep[i] {
			continue
		}
		if slices.Contains(output, name) {
			panic(nameTaken(name))
		}
		k.order = append(k.order, i)
	}
	if t.Shape != rowtext.CSV && t.Shape != rowtext.Split {
		return k
	}
	k.quoted, k.types = make([][]byte, len(t.Columns)), make([]columnType, len(t.Columns))
	for _, i := range k.order {
		k.quoted[i] = append(rowtext.AppendString(nil, t.Columns[i].Name), ':')
		f := &p.schema.Layout.Fields[p.index[t.Columns[i].Name]]
		k.types[i] = columnType{f.Number == ipc.Float64, f.Kind == ipc.KindBool}
	}
	return k
}

// nameTaken returns the error for a kept column with the name of an output column.
func nameTaken(name string) *Error {
	return wire.Errorf(wire.NameTaken, "a kept column has the name of the output column").
		WithHint("rename it, set another output.column, or do not keep it").In(name)
}

func (k *tableRows) names() (names []string) {
	for _, i := range k.order {
		names = append(names, k.t.Columns[i].Name)
	}
	return names
}

func (k *tableRows) size() (n int) {
	if k.quoted == nil { // objects, each with the names that it came with
		for i := range k.t.Cells {
			if c := &k.t.Cells[i]; k.keep[c.Column] {
				n += int(c.Hi-c.Name) + 1
			}
		}
		return n
	}
	for _, i := range k.order {
		n += k.t.Columns[i].Bytes + len(k.t.Rows)*(len(k.t.Columns[i].Name)+4)
	}
	return n
}

func (k *tableRows) members(dst []byte, _, row int) []byte {
	if k.t.Shape == rowtext.CSV {
		return k.each(dst, row, func(dst []byte, i int, c *rowtext.Cell) []byte {
			return k.appendValue(append(dst, k.quoted[i]...), i, c)
		})
	}
	cells, from := k.t.CellsOf(row), len(dst)
	for i := range cells {
		c := &cells[i]
		if !k.keep[c.Column] {
			continue
		}
		if c.Name >= 0 {
			dst = append(dst, k.t.Data[c.Name:c.Hi]...)
		} else {
			dst = append(append(dst, k.quoted[c.Column]...), k.t.Bytes(c)...)
		}
		dst = append(dst, ',')
	}
	if k.isLine { // strings have no line breaks, so these are between values
		for i, c := range dst[from:] {
			if c == '\n' || c == '\r' {
				dst[from+i] = ' '
			}
		}
	}
	return dst
}

func (k *tableRows) values(dst []byte, _, row int) []byte { return k.each(dst, row, k.appendValue) }

func (k *tableRows) fields(dst []byte, _, row int) []byte {
	return k.each(dst, row, func(dst []byte, _ int, c *rowtext.Cell) []byte {
		switch {
		case c == nil:
			return dst
		case k.t.Shape == rowtext.CSV:
			return append(dst, k.t.Bytes(c)...)
		}
		return rowtext.AppendAsField(dst, k.t.Bytes(c))
	})
}

// appendValue appends a cell, nil for an absent one, as a JSON value.
func (k *tableRows) appendValue(dst []byte, i int, c *rowtext.Cell) []byte {
	switch {
	case c == nil:
		return append(dst, "null"...)
	case k.t.Shape == rowtext.CSV:
		return rowtext.AppendAsValue(dst, k.t.Bytes(c), c.Kind, k.types[i].isNumber, k.types[i].isBoolean)
	}
	return append(dst, k.t.Bytes(c)...)
}

// each appends the kept columns of a row in their order, each with a comma after it.
func (k *tableRows) each(dst []byte, row int, f func(dst []byte, i int, c *rowtext.Cell) []byte) []byte {
	clear(k.cells)
	cells := k.t.CellsOf(row)
	for i := range cells {
		k.cells[cells[i].Column] = &cells[i]
	}
	for _, i := range k.order {
		dst = append(f(dst, i, k.cells[i]), ',')
	}
	return dst
}
