package file

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// parts reads several files one after the other, with the columns of the first in its order. One is open at a time.
type parts struct {
	how     Options
	paths   []string // that are not begun
	whole   *arrow.Schema
	rows    int64
	current *Reader
	columns []int // of current, for each of whole
	starts  []part
	read    int
}

// part is a file that was begun.
type part struct {
	path   string
	before int // rows of the files before it
}

// OpenAll opens several files of one format as one table: the rows of one after those of the other. Each file has the
// columns of the first, by name and type; a column of nulls has any type. The types of CSV are those of the values in
// all files, as if they were one.
func (how Options) OpenAll(paths []string) (*Reader, error) {
	switch len(paths) {
	case 0:
		return nil, errors.New("no files are named; give at least one")
	case 1:
		return how.Open(paths[0])
	}
	if err := how.checkFormats(paths); err != nil {
		return nil, err
	}
	p := &parts{how: how, paths: paths}
	var size int64
	for i, path := range paths {
		r, err := how.Open(path)
		if err != nil {
			return nil, err
		}
		size += r.size
		err = p.survey(r, i == 0, paths[0])
		r.Close()
		if err != nil {
			return nil, err
		}
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	if p.how.types != nil {
		p.whole = p.current.schema
		p.rows = p.current.Rows()
	}
	return &Reader{name: paths[0], schema: p.whole, records: p, label: -1, size: size, notes: p.current.notes,
		why: p.current.why}, nil
}

// checkFormats returns an error if two files have different formats.
func (how Options) checkFormats(paths []string) error {
	first, err := how.formatOf(paths[0])
	if err != nil {
		return fmt.Errorf("%w; if it has none, name the others, such as %s, with a pattern", err, paths[1])
	}
	for _, path := range paths[1:] {
		f, err := how.formatOf(path)
		if err != nil {
			return fmt.Errorf("%w; if it has none, name the others, such as %s, with a pattern", err, paths[0])
		}
		if isCSV := first <= csvGzip && f <= csvGzip; f != first && !isCSV {
			return fmt.Errorf("%s and %s have different formats: name the files of one with a pattern, such as %s", paths[0],
				path, filepath.Join(filepath.Dir(path), "*"+filepath.Ext(paths[0])))
		}
	}
	return nil
}

// survey checks the columns of a file, and finds the types that fit it and the files before it.
func (p *parts) survey(r *Reader, isFirst bool, first string) error {
	if c, ok := r.records.(*csvReader); ok {
		if isFirst {
			p.how.types = &csvTypes{}
		}
		p.how.types.add(c)
	}
	p.rows += r.Rows()
	if isFirst {
		p.whole = r.schema
	}
	columns, err := columnsOf(r, p.whole, first)
	if err != nil || p.how.types != nil { // the types of CSV are known after all files
		return err
	}
	fields := slices.Clone(p.whole.Fields())
	for i, f := range fields {
		other := r.schema.Field(columns[i])
		t := commonType(f.Type, other.Type)
		if t == nil {
			return fmt.Errorf("%s: column %q is %s, and in the files before it is %s: write it with one type in all files",
				r.name, f.Name, other.Type, f.Type)
		}
		fields[i].Type, fields[i].Nullable = t, f.Nullable || other.Nullable
	}
	meta := p.whole.Metadata()
	p.whole = arrow.NewSchema(fields, &meta)
	return nil
}

// columnsOf returns the index in a file of each column of whole.
func columnsOf(r *Reader, whole *arrow.Schema, first string) (columns []int, err error) {
	for _, f := range whole.Fields() {
		at := r.schema.FieldIndices(f.Name)
		switch len(at) {
		case 0:
			return nil, fmt.Errorf("%s has no column %q, and %s has: write all files with the same columns", r.name, f.Name,
				first)
		case 1:
			columns = append(columns, at[0])
		default:
			return nil, fmt.Errorf("%s has %d columns %q: rename all but one", r.name, len(at), f.Name)
		}
	}
	for _, f := range r.schema.Fields() {
		if !whole.HasField(f.Name) {
			return nil, fmt.Errorf("%s has a column %q, and %s has not: write all files with the same columns", r.name,
				f.Name, first)
		}
	}
	return columns, nil
}

// commonType returns the type for the values of both types, nil if there is none.
func commonType(a, b arrow.DataType) arrow.DataType {
	switch {
	case arrow.TypeEqual(a, b) || b.ID() == arrow.NULL:
		return a
	case a.ID() == arrow.NULL:
		return b
	}
	return nil
}

// open opens the next file.
func (p *parts) open() (err error) {
	path := p.paths[0]
	if p.current, err = p.how.Open(path); err != nil {
		return err
	}
	p.paths, p.starts = p.paths[1:], append(p.starts, part{path, p.read})
	p.columns, err = columnsOf(p.current, p.whole, p.starts[0].path)
	if err != nil {
		p.current.Close()
	}
	return err
}

func (p *parts) schema() *arrow.Schema { return p.whole }

func (p *parts) count() int64 { return p.rows }

func (p *parts) next() (arrow.Record, error) {
	rec, err := p.current.Next()
	for err == io.EOF && len(p.paths) > 0 {
		p.current.Close()
		if err = p.open(); err == nil {
			rec, err = p.current.Next()
		}
	}
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	p.read += int(rec.NumRows())
	columns := make([]arrow.Array, len(p.columns))
	for i, at := range p.columns {
		if columns[i] = as(p.whole.Field(i).Type, rec.Column(at)); columns[i] == nil {
			return nil, fmt.Errorf("%s changed while it was read", p.current.name)
		}
		defer columns[i].Release()
	}
	return array.NewRecord(p.whole, columns, rec.NumRows()), nil
}

// as returns a column with a type of commonType, nil if it has neither this type nor no values.
func as(t arrow.DataType, column arrow.Array) arrow.Array {
	switch {
	case arrow.TypeEqual(t, column.DataType()):
		column.Retain()
		return column
	case column.DataType().ID() == arrow.NULL:
		return array.MakeArrayOfNull(memory.DefaultAllocator, t, column.Len())
	}
	return nil
}

func (p *parts) close() error { return p.current.Close() }

// Place returns the file of row number row of all files, from 1, and its number in that file.
func (r *Reader) Place(row int) (path string, at int) {
	p, ok := r.records.(*parts)
	if !ok {
		return r.name, row
	}
	for _, s := range slices.Backward(p.starts) {
		if s.before < row {
			return s.path, row - s.before
		}
	}
	return r.name, row
}
