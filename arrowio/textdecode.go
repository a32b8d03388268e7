package arrowio

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rowtext"
	"github.com/embedd/embedd/arrowio/wire"
)

// memory returns the most memory that a text message of these bytes may take in addition to them: what its fields,
// and columns in which most rows have a value, need, and at most Limits.Body. It depends on the message alone, so that
// Expanded knows it before anything is read.
func (r *textReader) memory(msg []byte) int {
	n := 1
	for _, mark := range []byte(",{[\n") {
		n += bytes.Count(msg, []byte{mark})
	}
	return min(r.limits.Body, 64<<10+16*len(msg)+64*n)
}

// answer returns the most memory that the rows of a text message and their outputs of dim numbers take in addition to
// memory: the numbers, their text, and what is noted about a row, which is most if it cannot be read.
func (r *textReader) answer(msg []byte, dim int) int {
	const noted = 320 // bytes of what is noted about a row
	rows := min(r.limits.Rows, bytes.Count(msg, []byte{','})+bytes.Count(msg, []byte{'\n'})+1)
	return rows * (noted + (4+rowtext.MaxFloat32+1)*dim)
}

// table reads the fields of a message.
func (r *textReader) table(msg []byte) *rowtext.Table {
	limits := rowtext.Limits{Rows: r.limits.Rows, Fields: r.limits.Fields, Depth: r.limits.Depth, Memory: r.memory(msg)}
	switch r.spec.Format {
	case wire.FormatJSON:
		return rowtext.ReadJSON(msg, limits)
	case wire.FormatNDJSON:
		return rowtext.ReadLines(msg, limits)
	}
	return rowtext.ReadCSV(msg, limits)
}

// decodeText reads a message of text: its fields become the columns of one batch, which is then read as one of Arrow.
func decodeText(d *Decoder, msg []byte, c *Contract, excluded []string) *Message {
	if len(msg) > d.limits.Message {
		panic(d.tooLong(msg))
	}
	t := d.texts.table(msg)
	budget := t.Left()
	fill := d.texts.filler(t)
	defer d.texts.fillers.Put(fill)
	fill.checkReadable() // before the schema: a message of which no row can be read has no columns
	l := layoutOf(d, t, c, excluded)
	fill.columns = l.columns
	m := &Message{decoder: d, plan: l.plan, table: t}
	b := m.next()
	b.data.Chunk = fill.chunk(&l.plan.schema.Layout, &budget, &d.codecs)
	fill.checkReadable()
	for row, e := range fill.faults {
		if e != nil {
			b.rejected = append(b.rejected, Fault{Row: row, Feature: e.Column, What: e.Detail, Code: e.Code})
		}
	}
	memory := d.texts.memory(msg)
	encoded := min(8*len(t.Rows)*l.plan.encodedFeatures(), d.limits.Body-memory)
	budget += encoded
	d.add(m, b, &budget)
	m.size = memory + encoded - budget
	return m
}

// textFiller fills the columns of a batch from the cells of a table. Messages use it one after another.
type textFiller struct {
	spec    *Spec
	t       *rowtext.Table
	columns []textColumn
	faults  []*Error // of each row, nil: it can be read
	into    []columnBuffers
	counts  []int // of the elements of lists, by column of the table; empty: not counted yet
}

// filler returns a filler for the rows of a table.
func (r *textReader) filler(t *rowtext.Table) *textFiller {
	f, ok := r.fillers.Get().(*textFiller)
	if !ok {
		f = &textFiller{spec: r.spec}
	}
	f.t, f.faults, f.counts = t, f.faults[:0], f.counts[:0]
	for i := range t.Rows {
		f.faults = append(f.faults, t.Rows[i].Err)
	}
	return f
}

// columnBuffers are the buffers of a column, and those of its list's child.
type columnBuffers struct {
	column         *textColumn
	valid, inner   ipc.Validity
	values, starts []byte
	used           int // of values: bytes, or elements of lists
	next           int // row: starts are filled up to it
}

// checkReadable panics with the first error if no row can be read.
func (f *textFiller) checkReadable() {
	if len(f.faults) == 0 {
		return
	}
	for _, e := range f.faults {
		if e == nil {
			return
		}
	}
	panic(f.faults[0])
}

// chunk returns the batch.
func (f *textFiller) chunk(l *ipc.Layout, budget *int, codecs *ipc.Decompressor) ipc.Chunk {
	size := 0
	for i := range f.columns {
		size += f.size(&f.columns[i])
		if size > *budget {
			panic(wire.Errorf(wire.TooLarge, "%d rows of %d fields take more memory than the message's length allows",
				len(f.t.Rows), len(f.columns)).WithHint("send fields that most rows have, or fewer rows a message").In(
				f.columns[i].name))
		}
	}
	*budget -= size
	b := ipc.NewBuilder(l, len(f.t.Rows), size, codecs)
	f.into = slices.Grow(f.into[:0], len(f.t.Columns))[:len(f.t.Columns)]
	var absent columnBuffers
	for i := range f.columns {
		into := &absent
		if at := f.columns[i].at; at >= 0 {
			into = &f.into[at]
		}
		f.open(b, &f.columns[i], into)
	}
	for row := range f.t.Rows {
		cells := f.t.CellsOf(row)
		for i := range cells {
			if e := f.set(&f.into[cells[i].Column], row, &cells[i]); e != nil && f.faults[row] == nil {
				f.faults[row] = f.t.Keep(e.At(row))
			}
		}
	}
	for i := range f.into {
		if b := &f.into[i]; b.starts != nil {
			b.start(len(f.t.Rows))
		}
	}
	return b.Chunk()
}

// size returns the bytes of a column's buffers.
func (f *textFiller) size(c *textColumn) int {
	n := len(f.t.Rows)
	bits := ipc.Padded((n + 7) / 8)
	switch c.typ {
	case textNothing:
		return 0
	case textNumbers:
		return bits + 8*n
	case textBooleans:
		return 2 * bits
	case textList:
		return bits + ipc.Padded((n*c.size+7)/8) + 8*n*c.size
	case textLists:
		count := f.elements(c)
		return bits + ipc.Padded(4*n+4) + ipc.Padded((count+7)/8) + 8*count
	}
	return bits + ipc.Padded(4*n+4) + ipc.Padded(f.t.Columns[c.at].Bytes)
}

// elements returns the number of elements of a column of lists. Those of all columns are counted at once: there may be
// as many columns as Limits.Fields.
func (f *textFiller) elements(c *textColumn) int {
	if len(f.counts) == 0 {
		f.counts = slices.Grow(f.counts, len(f.t.Columns))[:len(f.t.Columns)]
		clear(f.counts)
		for i := range f.t.Cells {
			if cell := &f.t.Cells[i]; cell.Kind == rowtext.Numbers {
				f.counts[cell.Column] += rowtext.Count(f.t.Bytes(cell))
			}
		}
	}
	return f.counts[c.at]
}

// open adds a column to the batch, with null in all rows. What its type does not need stays as it was.
func (f *textFiller) open(b *ipc.Builder, c *textColumn, into *columnBuffers) {
	n := len(f.t.Rows)
	into.column, into.valid, into.starts, into.used, into.next = c, b.Field(n), nil, 0, 0
	if c.typ == textNothing {
		return
	}
	into.valid.Bits = b.Buffer((n + 7) / 8)
	switch c.typ {
	case textNumbers:
		into.values = b.Buffer(8 * n)
	case textBooleans:
		into.values = b.Buffer((n + 7) / 8)
	case textList, textLists:
		count := n * c.size
		if c.typ == textLists {
			count = f.elements(c)
			into.starts = b.Buffer(4*n + 4)
		}
		into.inner = b.Field(count)
		into.inner.Bits = b.Buffer((count + 7) / 8)
		into.values = b.Buffer(8 * count)
	default:
		into.starts = b.Buffer(4*n + 4)
		into.values = b.Buffer(f.t.Columns[c.at].Bytes)
	}
}

// start records where the value of a row begins.
func (b *columnBuffers) start(row int) {
	for ; b.next <= row; b.next++ {
		le.PutUint32(b.starts[4*b.next:], uint32(b.used))
	}
}

// set fills in a cell.
func (f *textFiller) set(b *columnBuffers, row int, cell *rowtext.Cell) *Error {
	if cell.Kind == rowtext.Null {
		return nil
	}
	raw := f.t.Bytes(cell)
	switch b.column.typ {
	case textNumbers:
		v, isNull, ok := rowtext.Float(raw, cell.Kind)
		if !ok {
			return f.noNumber(b.column, cell)
		}
		if !isNull {
			le.PutUint64(b.values[8*row:], math.Float64bits(v))
			b.valid.Set(row)
		}
	case textBooleans:
		kind := cell.Kind
		if kind == rowtext.Plain || kind == rowtext.Quoted {
			kind = rowtext.FieldKind([]byte(rowtext.Field(raw, kind)))
		}
		if kind == rowtext.True {
			b.values[row>>3] |= 1 << (row & 7)
		}
		if kind != rowtext.Null {
			b.valid.Set(row)
		}
	case textList, textLists:
		return f.setList(b, row, cell, raw)
	case textTexts, textJSON:
		if b.column.typ == textTexts {
			raw = textOf(raw, cell.Kind)
		}
		b.setText(row, raw)
	case textNames:
		return f.setName(b, row, cell, raw)
	}
	return nil
}

// setList fills in a list.
func (f *textFiller) setList(b *columnBuffers, row int, cell *rowtext.Cell, raw []byte) *Error {
	c := b.column
	if cell.Kind != rowtext.Numbers {
		return f.noNumber(c, cell)
	}
	count, from := rowtext.Count(raw), row*c.size
	if c.typ == textList && count != c.size {
		e := wire.Errorf(wire.FeatureCount, "a list of %d elements, and %d are expected", count, c.size).In(c.name)
		if f.spec.Sizes[c.name] == 0 {
			e.Code = wire.SchemaChanged
		}
		return e
	}
	if c.typ == textLists {
		from = b.used
		b.start(row)
		b.used += count
	}
	b.valid.Set(row)
	rowtext.Floats(raw, func(k int, v float64) {
		le.PutUint64(b.values[8*(from+k):], math.Float64bits(v))
		b.inner.Set(from + k)
	})
	return nil
}

// setName fills in a label, key, category or date as its text. 3 and "3" are the same.
func (f *textFiller) setName(b *columnBuffers, row int, cell *rowtext.Cell, raw []byte) *Error {
	code, what := f.nameKind(b.column.name)
	text, refused := nameOf(raw, cell.Kind)
	if code == wire.KeyType && (cell.Kind == rowtext.True || cell.Kind == rowtext.False) {
		refused = "the boolean"
	}
	if refused != "" {
		return wire.Errorf(code, "%s %s cannot be a %s", refused, wire.Clip(string(raw)), what).WithHint(
			"use text or an integer").In(b.column.name)
	}
	if len(text) > 0 || cell.Kind != rowtext.Quoted {
		b.setText(row, text)
	}
	return nil
}

// nameKind is what the texts of a column are, and the code of one that is refused.
func (f *textFiller) nameKind(column string) (code wire.Code, what string) {
	switch e := f.spec.encoding(column); {
	case column == f.spec.Key:
		return wire.KeyType, "key"
	case column == f.spec.Label:
		return wire.LabelType, "label"
	case e != nil && e.Values == nil:
		return wire.NotNumeric, "date"
	}
	return wire.NotNumeric, "category"
}

// nameOf is the text of a cell as a name, or what it is if it cannot be one.
func nameOf(raw []byte, kind rowtext.Kind) (text []byte, refused string) {
	isNumber := kind == rowtext.Number || kind == rowtext.Plain && rowtext.FieldKind(raw) == rowtext.Number
	switch {
	case kind == rowtext.Numbers || kind == rowtext.Nested:
		return nil, "the value"
	case isNumber && !rowtext.IsInteger(raw):
		return nil, "the number"
	case kind == rowtext.Number && string(raw) == "-0":
		return raw[1:], ""
	}
	return textOf(raw, kind), ""
}

func (b *columnBuffers) setText(row int, text []byte) {
	b.start(row)
	b.used += copy(b.values[b.used:], text)
	b.valid.Set(row)
}

// textOf returns the text of a cell.
func textOf(raw []byte, kind rowtext.Kind) []byte {
	switch kind {
	case rowtext.String:
		return []byte(rowtext.Unquote(raw))
	case rowtext.Quoted:
		return []byte(rowtext.Field(raw, kind))
	}
	return raw
}

// noNumber returns the error for a cell of a feature that holds no number, or no list of numbers.
func (f *textFiller) noNumber(c *textColumn, cell *rowtext.Cell) *Error {
	raw := wire.Clip(string(f.t.Bytes(cell)))
	switch {
	case c.typ == textNumbers && cell.Kind == rowtext.Numbers:
		return wire.Errorf(wire.SchemaChanged, "it holds a list, and one number is expected").WithHint(
			"send one number a row").In(c.name)
	case c.typ != textNumbers && cell.Kind == rowtext.Number:
		return wire.Errorf(wire.SchemaChanged, "it holds one number, and a list is expected").WithHint(
			"send a list of numbers a row").In(c.name)
	}
	if strings.IndexAny(raw, "\"[{") != 0 { // else it is quoted, or JSON
		raw = strconv.Quote(raw)
	}
	return wire.Errorf(wire.NotNumeric, "%s is no number", raw).WithHint(
		"send a number, in JSON without quotes; a missing value is null, in CSV an empty field").In(c.name)
}
