// Package rowtext reads the rows of JSON and CSV messages as spans of their bytes, and writes values in both forms. It
// interprets no value: what a column is for is decided above.
//
// Messages are untrusted (Invariant 6): rows, names, nesting and the memory of the spans are limited.
package rowtext

import (
	"bytes"
	"slices"
	"sync"

	"github.com/embedd/embedd/arrowio/wire"
)

// Shape is how a message arranges its rows.
type Shape uint8

// The shapes.
const (
	Object Shape = iota // one JSON object
	Array               // a JSON array of objects
	Split               // {"columns": [...], "index": [...], "data": [[...], ...]}, as pandas writes it
	Lines               // a JSON object a line
	CSV                 // a header line, then a line a row
)

// Kind is what a cell holds.
type Kind uint8

// The kinds. Those before Plain are JSON values.
const (
	Null Kind = iota
	False
	True
	Number
	String
	Numbers // an array of numbers and nulls
	Nested  // another array or an object
	Plain   // a CSV field without quotes
	Quoted  // a CSV field in quotes
)

// Kinds is a set of kinds.
type Kinds uint16

// Has reports whether the set has one of these kinds.
func (s Kinds) Has(kinds ...Kind) bool {
	return slices.ContainsFunc(kinds, func(k Kind) bool { return s>>k&1 == 1 })
}

// Only reports whether the set has no other kinds than these and Null, and at least one of these.
func (s Kinds) Only(kinds ...Kind) bool {
	for _, k := range kinds {
		s &^= 1 << k
	}
	return s&^(1<<Null) == 0
}

// A Column is the name of a field, with what its cells hold.
type Column struct {
	Name  string
	Kinds Kinds
	Bytes int // of its cells

	row int // the last row with a cell, from 1
}

// A Cell is a value of a row: Data[Lo:Hi]. A JSON member begins at Name.
type Cell struct {
	Column       int32
	Name, Lo, Hi int32
	Kind         Kind
}

// A Row is the cells From to To-1, in the order in which they are written, and the bytes Lo to Hi-1 of the message.
type Row struct {
	Lo, Hi   int32
	From, To int32
	Err      *wire.Error // why the row cannot be read, with the code; it then has no cells
}

// Limits limit the resources of one message.
type Limits struct {
	Rows   int
	Fields int // different names
	Depth  int // levels of nesting of a value
	Memory int // bytes of cells and rows
}

// A Table is the rows of a message. It is a view on the message.
type Table struct {
	Data    []byte
	Shape   Shape
	Columns []Column // in the order in which they first appear
	Rows    []Row
	Cells   []Cell
	Head    Cell   // CSV: the header line without its end; Split: the array of columns
	Index   []Cell // Split: an index for each row; nil if there is none

	limits Limits
	errors int                       // given to Keep
	others map[wire.Code]*wire.Error // those without details
}

// Sizes of the elements of a table, rounded up.
const (
	cellBytes   = 20
	rowBytes    = 24
	columnBytes = 40
)

// maxErrors is how many rows of a message have errors with details (Invariant 5).
const maxErrors = 64

// Keep returns the error of a row, or one without details that rows with the same code share.
func (t *Table) Keep(err *wire.Error) *wire.Error {
	if t.errors++; t.errors <= maxErrors {
		return err
	}
	if t.others == nil {
		t.others = map[wire.Code]*wire.Error{}
	}
	if t.others[err.Code] == nil {
		t.others[err.Code] = wire.Errorf(err.Code, "it cannot be used, as other rows before it")
	}
	return t.others[err.Code]
}

var tables = sync.Pool{New: func() any { return &Table{} }}

// newTable returns an empty table. It has the memory of a released one if that is within the limit.
func newTable(msg []byte, l Limits) *Table {
	t := tables.Get().(*Table)
	if cellBytes*cap(t.Cells)+rowBytes*cap(t.Rows)+columnBytes*cap(t.Columns) > l.Memory {
		t = &Table{}
	}
	*t = Table{Data: msg, Columns: t.Columns[:0], Rows: t.Rows[:0], Cells: t.Cells[:0], limits: l}
	return t
}

// Release lets other messages use the table's memory.
func (t *Table) Release() {
	clear(t.Columns)
	clear(t.Rows)
	*t = Table{Columns: t.Columns[:0], Rows: t.Rows[:0], Cells: t.Cells[:0]}
	tables.Put(t)
}

// startOf returns where a message begins, behind a byte order mark.
func startOf(msg []byte) int { return len(msg) - len(bytes.TrimPrefix(msg, []byte("\ufeff"))) }

// nameOf returns the name of a cell's column, nothing for a value that is in none.
func (t *Table) nameOf(c *Cell) string {
	if int(c.Column) >= len(t.Columns) {
		return ""
	}
	return t.Columns[c.Column].Name
}

// Left returns how much of Limits.Memory the table has not used.
func (t *Table) Left() int { return t.limits.Memory }

// spend counts memory of the table.
func (t *Table) spend(n int) {
	if t.limits.Memory -= n; t.limits.Memory < 0 {
		panic(wire.Errorf(wire.TooLarge, "the fields of the message take more memory than its length allows").WithHint(
			"send fewer rows a message, or raise limits.expanded"))
	}
}

// CellsOf returns the cells of a row.
func (t *Table) CellsOf(row int) []Cell { return t.Cells[t.Rows[row].From:t.Rows[row].To] }

// Bytes returns the bytes of a cell.
func (t *Table) Bytes(c *Cell) []byte { return t.Data[c.Lo:c.Hi] }

// column adds a column.
func (t *Table) column(name string) int32 {
	if len(t.Columns) == t.limits.Fields {
		panic(wire.Errorf(wire.TooManyFields, "the message has more than %d fields of different names",
			t.limits.Fields).WithHint("send the features as one array, or leave fields out"))
	}
	t.spend(64 + len(name))
	t.Columns = append(t.Columns, Column{Name: name})
	return int32(len(t.Columns) - 1)
}

// add appends a cell to the row that is being read. It returns false if the row has one of the column already.
func (t *Table) add(c Cell) bool {
	column := &t.Columns[c.Column]
	if column.row == len(t.Rows)+1 {
		return false
	}
	column.row = len(t.Rows) + 1
	t.spend(cellBytes)
	t.Cells = append(t.Cells, c)
	return true
}

// end appends the row whose cells begin at index from.
func (t *Table) end(lo, hi int, from int, err *wire.Error) {
	if len(t.Rows) == t.limits.Rows {
		panic(wire.Errorf(wire.TooManyRows, "more than %d rows", t.limits.Rows).WithHint(
			"send smaller batches or raise limits.rows"))
	}
	t.spend(rowBytes)
	if err != nil {
		err = t.Keep(err.At(len(t.Rows)))
		t.Cells = t.Cells[:from]
	}
	t.Rows = append(t.Rows, Row{int32(lo), int32(hi), int32(from), int32(len(t.Cells)), err})
}

// summarize counts what the columns hold.
func (t *Table) summarize() {
	for i := range t.Cells {
		c := &t.Cells[i]
		column := &t.Columns[c.Column]
		column.Kinds |= 1 << c.Kind
		column.Bytes += int(c.Hi - c.Lo)
	}
}
