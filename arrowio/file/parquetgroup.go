package file

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/parquet-go/parquet-go"
)

// A leafReader reads the values of a leaf in one row group. In memory are its dictionary and a page.
type leafReader struct {
	column *parquetColumn
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader // of the page
	ahead  []parquet.Value     // that are read and not appended, in memory
	row    int64               // index in the file of the next row
	memory [256]parquet.Value
}

// errLargeBatch reports that the values of a batch take too much memory, as if many rows have the same large value.
var errLargeBatch = errors.New("a batch of rows exceeds its limit")

// append appends rows to the column, and subtracts the bytes of their values from room. A list ends where the next one
// begins.
func (l *leafReader) append(rows int, room *int64) error {
	for {
		for k, v := range l.ahead {
			if v.RepetitionLevel() == 0 {
				if rows == 0 {
					l.ahead = l.ahead[k:]
					return nil
				}
				rows--
				l.row++
			}
			if v.Kind() == parquet.Int96 {
				if t := int96Time(v.Int96()); t.Before(minTimestamp) || t.After(maxTimestamp) {
					return fmt.Errorf("row %d: the timestamp %s is %w", l.row-1, t.Format(time.RFC3339), errTimestamp)
				}
			}
			size := l.column.size
			if v.Kind() == parquet.ByteArray {
				size += int64(len(v.ByteArray()))
			}
			if *room -= size; *room < 0 {
				return fmt.Errorf("row %d: %w", l.row-1, errLargeBatch)
			}
			l.column.append(v)
		}
		l.ahead = nil
		if rows == 0 && l.column.list == nil {
			return nil
		}
		err := l.read()
		if rows == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

// read reads the next values. Those before must have been appended, because texts are views on a page.
func (l *leafReader) read() error {
	for {
		if l.values != nil {
			n, err := l.values.ReadValues(l.memory[:])
			if n > 0 {
				l.ahead = l.memory[:n]
				return nil
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			l.release()
		}
		page, err := l.pages.ReadPage()
		if err != nil {
			return err
		}
		l.page, l.values = page, page.Values()
	}
}

func (l *leafReader) release() {
	if l.page != nil {
		parquet.Release(l.page)
	}
	l.page, l.values = nil, nil
}

func (l *leafReader) close() {
	l.release()
	l.pages.Close()
}

// defaultLeafBytes is the memory of the leaves that are read together, as far as their sizes in the file say.
const defaultLeafBytes = 32 << 20

// usualLeafBytes is what a leaf takes at most with the usual sizes of pages and dictionaries: 1 MiB each.
const usualLeafBytes = 2 << 20

// A stripe is a file with some columns of a row group, as batches of rows. The columns of a wide group are read a
// stripe after the other, because each needs memory for a page and its dictionary.
type stripe struct {
	file    *os.File
	reader  *ipc.FileReader
	columns []int // in the schema of the file
}

func (s *stripe) close() {
	if s.reader != nil {
		s.reader.Close()
	}
	removeTemporary(s.file)
}

// openGroup begins with a row group: its leaves or, if they are large, stripes.
func (p *parquetReader) openGroup(g parquet.RowGroup, chunks []columnChunk) error {
	if p.left, p.batches = g.NumRows(), 0; p.left == 0 {
		return nil
	}
	if p.left < 0 {
		return fmt.Errorf("%s: a row group of %d rows: the file is damaged", p.name, p.left)
	}
	columnChunks := g.ColumnChunks()
	open := func(columns []int) {
		for _, k := range columns {
			c, leaf := p.columns[k], p.columns[k].leaf.Index()
			p.leaves = append(p.leaves, &leafReader{column: c, pages: pagesOf(p.file, chunks[leaf], columnChunks[leaf], c.leaf),
				row: p.first})
		}
	}
	var parts [][]int
	room := int64(0)
	for k, c := range p.columns {
		size := min(chunks[c.leaf.Index()].uncompressed, usualLeafBytes)
		if len(parts) == 0 || size > room {
			parts, room = append(parts, nil), p.maxLeafBytes
		}
		room -= size
		parts[len(parts)-1] = append(parts[len(parts)-1], k)
	}
	if len(parts) == 1 {
		open(parts[0])
		return nil
	}
	room = p.maxStripeBytes
	for _, columns := range parts {
		open(columns)
		s, err := p.write(columns, &room)
		if errors.Is(err, errExpands) {
			p.closeGroup()
			open(slices.Concat(parts...))
			return nil
		}
		if err != nil {
			return err
		}
		p.stripes = append(p.stripes, s)
		p.closeLeaves()
	}
	return nil
}

// errExpands reports that the values of a group are so much larger than the file. Its leaves are small, then.
var errExpands = errors.New("the values of a row group are much larger than the file")

// write copies the columns of the open leaves, of all rows of the group, to a temporary file, and subtracts its size
// from room.
func (p *parquetReader) write(columns []int, room *int64) (_ *stripe, err error) {
	s := &stripe{columns: columns}
	if s.file, err = os.CreateTemp("", "embedd-*.columns"); err != nil {
		return nil, errTemporary(err)
	}
	os.Remove(s.file.Name()) // on systems where an open file can be removed
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	fields := make([]arrow.Field, len(columns))
	for k, c := range columns {
		fields[k] = p.arrow.Field(c)
	}
	schema := arrow.NewSchema(fields, nil)
	w, err := ipc.NewFileWriter(s.file, ipc.WithSchema(schema))
	if err != nil {
		return nil, errTemporary(err)
	}
	for left := p.left; left > 0; {
		n := min(left, p.batch)
		left -= n
		if err := p.append(n); err != nil {
			return nil, err
		}
		arrays := make([]arrow.Array, len(columns))
		for k, c := range columns {
			arrays[k] = p.values.Field(c).NewArray()
		}
		rec := array.NewRecord(schema, arrays, n)
		for _, a := range arrays {
			a.Release()
		}
		err := w.Write(rec)
		rec.Release()
		if err != nil {
			return nil, errTemporary(err)
		}
		if at, err := s.file.Seek(0, io.SeekCurrent); err != nil || at > *room {
			return nil, cmp.Or(err, errExpands)
		}
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	if *room -= at; err != nil {
		return nil, errTemporary(err)
	}
	if err := w.Close(); err != nil {
		return nil, errTemporary(err)
	}
	if s.reader, err = ipc.NewFileReader(s.file); err != nil {
		return nil, errTemporary(err)
	}
	return s, nil
}

func errTemporary(err error) error {
	return fmt.Errorf("columns are written to a temporary file: %w: set TMPDIR to another folder", err)
}

// append appends rows to the columns of the open leaves.
func (p *parquetReader) append(rows int64) error {
	room := p.maxBatchBytes
	for _, l := range p.leaves {
		switch err := l.append(int(rows), &room); {
		case errors.Is(err, errTimestamp), errors.Is(err, errLargePage):
			return fmt.Errorf("%s: column %q: %w", p.name, l.column.name, err)
		case errors.Is(err, errLargeBatch):
			return fmt.Errorf("%s: column %q: %w of %d bytes: write the file without the column, or with shorter values",
				p.name, l.column.name, err, p.maxBatchBytes)
		case err != nil:
			return fmt.Errorf("%s: column %q: %w: the file is damaged or uses an unknown encoding", p.name, l.column.name, err)
		}
	}
	return nil
}

// next returns the next batch.
func (p *parquetReader) next() (arrow.Record, error) {
	for p.left == 0 {
		p.closeGroup()
		if len(p.groups) == 0 {
			return nil, io.EOF
		}
		if err := p.openGroup(p.groups[0], p.chunks[0]); err != nil {
			return nil, err
		}
		p.first += p.groups[0].NumRows()
		p.groups, p.chunks = p.groups[1:], p.chunks[1:]
	}
	n := min(p.left, p.batch)
	p.left -= n
	if len(p.stripes) == 0 {
		if err := p.append(n); err != nil {
			return nil, err
		}
		return p.values.NewRecord(), nil
	}
	p.batches++
	arrays := make([]arrow.Array, len(p.columns))
	for _, s := range p.stripes {
		rec, err := s.reader.RecordAt(p.batches - 1)
		if err != nil {
			return nil, errTemporary(err)
		}
		defer rec.Release()
		for k, c := range s.columns {
			arrays[c] = rec.Column(k)
		}
	}
	return array.NewRecord(p.arrow, arrays, n), nil
}

func (p *parquetReader) closeLeaves() {
	for _, l := range p.leaves {
		l.close()
	}
	p.leaves = nil
}

func (p *parquetReader) closeGroup() {
	p.closeLeaves()
	for _, s := range p.stripes {
		s.close()
	}
	p.stripes = nil
}

func removeTemporary(file *os.File) {
	file.Close()
	os.Remove(file.Name())
}
