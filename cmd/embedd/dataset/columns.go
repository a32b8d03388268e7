package dataset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio"
	"github.com/embedd/embedd/arrowio/file"
	"github.com/embedd/embedd/cmd/embedd/cli"
)

// Columns explains which columns of a file are features, which are not, and why: in the same words for every verb and
// format.
type Columns struct {
	Name       string // of the file
	Label, Key string
	Other      string // why a numeric column is not a feature

	fields []arrowio.Field
	empty  map[string]bool   // features without a number in any row, which a fit drops
	index  map[string]string // columns that number the rows, and why: a fit drops them too
}

// See records the columns of a message.
func (c *Columns) See(m *arrowio.Message) {
	if c.fields == nil {
		c.fields = m.Fields()
		return
	}
	for i, f := range m.Fields() {
		c.fields[i].Empty = c.fields[i].Empty && f.Empty
	}
}

// Note prints the columns. in explains why a column of a CSV file is not numeric.
func (c *Columns) Note(e *cli.Env, in *file.Reader, features []string) {
	e.NoteIf(len(features) > 0, "%s: %d features: %s%s", c.Name, len(features), cli.Listed(features), c.labelAndKey())
	var none []string
	for _, f := range c.fields {
		if f.Name == c.Label || f.Name == c.Key || f.Feature && !c.empty[f.Name] && c.index[f.Name] == "" {
			continue
		}
		none = append(none, fmt.Sprintf("%q (%s)", f.Name, c.reason(f, in)))
	}
	e.NoteIf(len(none) > 0, "%s: not features: %s", c.Name, cli.Listed(none))
}

// numberColumns are the features that are columns of numbers, not lists.
func (c *Columns) numberColumns() map[string]bool {
	single := map[string]bool{}
	for _, f := range c.fields {
		single[f.Name] = f.Feature && f.Holds == "number"
	}
	return single
}

// labelAndKey lists the label and key columns.
func (c *Columns) labelAndKey() string {
	text := ""
	for _, x := range [][2]string{{"label", c.Label}, {"key", c.Key}} {
		if slices.ContainsFunc(c.fields, func(f arrowio.Field) bool { return f.Name == x[1] }) {
			text += fmt.Sprintf("; %s: %s", x[0], x[1])
		}
	}
	return text
}

// reason is the reason that a column is not a feature.
func (c *Columns) reason(f arrowio.Field, in *file.Reader) string {
	switch {
	case f.Empty:
		return "no value in any row"
	case c.empty[f.Name]: // NaN, infinite or beyond float32
		return "no finite float32 value in any row"
	case c.index[f.Name] != "":
		return c.index[f.Name]
	case slices.Contains(in.Indexes(), f.Name):
		return "the index that pandas stored"
	case strings.Contains(f.Holds, "number"):
		return c.Other
	}
	if why, doubtful := in.NotNumeric(f.Name); doubtful {
		return f.Holds + ": " + why
	}
	return f.Holds
}

// NoteRecord prints how a pipeline with features * reads the columns of a file, by its first record.
func (c Columns) NoteRecord(e *cli.Env, in *file.Reader, rec arrow.Record) {
	NoteFile(e, in)
	decoder, _, err := Spec{Label: c.Label, Key: c.Key}.Decoder()
	var m *arrowio.Message
	if err == nil {
		m, err = decoder.FromRecord(rec, nil)
	}
	if err != nil {
		e.Notef("%s: a pipeline with features * rejects it: %v", c.Name, err)
		return
	}
	c.See(m)
	for i, f := range c.fields { // later rows are unknown
		c.fields[i].Empty = f.Empty && f.Holds == "null"
	}
	c.Note(e, in, m.Contract().Elements())
	for _, f := range m.Fields() {
		e.NoteIf(f.Feature && f.Empty && rec.NumRows() > 0, "%s: %q has no value in the first %d rows: a pipeline with this "+
			"feature rejects them unless schema.nulls allows them", c.Name, f.Name, rec.NumRows())
	}
}

// Pack replaces numeric columns by one fixed-size list of float32: the given ones in their order, or all but the
// excepted ones in schema order. Nulls become null elements. List columns are unchanged.
func Pack(rec arrow.Record, name string, except, columns []string) (arrow.Record, error) {
	all, err := messageOf(rec, nil)
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	var kept, packed []arrow.Array
	var names []string
	for i, f := range rec.Schema().Fields() {
		if all.Fields()[i].Holds != "number" || slices.Contains(except, f.Name) ||
			columns != nil && !slices.Contains(columns, f.Name) {
			fields, kept = append(fields, f), append(kept, rec.Column(i))
			continue
		}
		names = append(names, f.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no numeric column to pack into %q", name)
	}
	if columns != nil {
		names = columns
	}
	for _, column := range names {
		at := rec.Schema().FieldIndices(column)
		if len(at) == 0 {
			return nil, fmt.Errorf("there is no column %q to pack into %q", column, name)
		}
		packed = append(packed, rec.Column(at[0]))
	}
	m, err := messageOf(rec, names)
	if err != nil {
		return nil, err
	}
	list := arrow.FixedSizeListOf(int32(len(names)), arrow.PrimitiveTypes.Float32)
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(len(names)), arrow.PrimitiveTypes.Float32)
	defer b.Release()
	values := b.ValueBuilder().(*array.Float32Builder)
	blocks := m.Batches()[0].Features()
	var x []float64
	for row := range int(rec.NumRows()) {
		b.Append(true)
		x = x[:0]
		for _, block := range blocks {
			x = appendRow(x, block, row)
		}
		for j, v := range x {
			if packed[j].IsNull(row) {
				values.AppendNull()
			} else {
				values.Append(float32(v))
			}
		}
	}
	lists := b.NewArray()
	defer lists.Release()
	fields = append([]arrow.Field{{Name: name, Type: list}}, fields...)
	meta := rec.Schema().Metadata()
	return array.NewRecord(arrow.NewSchema(fields, &meta), append([]arrow.Array{lists}, kept...), rec.NumRows()), nil
}

// messageOf decodes a record as a pipeline with these features does.
func messageOf(rec arrow.Record, features []string) (*arrowio.Message, error) {
	decoder, err := arrowio.NewDecoder(arrowio.Spec{Features: features, Limits: file.Limits()})
	if err != nil {
		return nil, err
	}
	return decoder.FromRecord(rec, nil)
}
