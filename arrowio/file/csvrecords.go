package file

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode"
)

// csvRecords reads the records of CSV text as encoding/csv does, but keeps CRLF in quoted fields. It splits lines
// without quotes itself, which is several times as fast; encoding/csv reads records with quotes, and lines longer than
// the buffer, from the same buffer.
type csvRecords struct {
	in        *bufio.Reader
	quoted    *csv.Reader // of keep, one line at a time
	keep      *crlfReader
	delimiter byte // 0: it is not one byte, so encoding/csv reads everything
	trim      bool // spaces before a field
	fields    []string
	columns   int  // of each record, as of the first; 0: none was read
	lines     int  // that were read
	split     int  // of these, those that encoding/csv has not read
	isQuoted  bool // encoding/csv has read the last record
}

// csvBuffer is the size of the buffer: lines of some thousand columns fit.
const csvBuffer = 1 << 20

func newCSVRecords(in *bufio.Reader, delimiter rune, trim bool) *csvRecords {
	keep := &crlfReader{in: in}
	r := &csvRecords{in: in, quoted: csv.NewReader(keep), keep: keep, trim: trim}
	r.quoted.ReuseRecord, r.quoted.Comma, r.quoted.TrimLeadingSpace = true, delimiter, trim
	if delimiter < 0x80 && !strings.ContainsRune("\"\r\n", delimiter) {
		r.delimiter = byte(delimiter)
	}
	return r
}

// Read returns the fields of the next record, which are valid until the next call, or io.EOF. Errors are those of
// encoding/csv.
func (r *csvRecords) Read() ([]string, error) {
	for {
		line, whole := r.peek()
		if r.isQuoted = !whole || r.delimiter == 0 || bytes.IndexByte(line, '"') >= 0; r.isQuoted {
			return r.readQuoted()
		}
		if len(line) == 0 {
			return nil, io.EOF
		}
		r.lines, r.split = r.lines+1, r.split+1
		text := string(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'}))
		_, _ = r.in.Discard(len(line)) // it is in the buffer
		if text == "" {
			continue // encoding/csv skips empty lines
		}
		r.cut(text)
		if r.columns == 0 {
			r.columns = len(r.fields)
		}
		if len(r.fields) != r.columns {
			return r.fields, &csv.ParseError{StartLine: r.lines, Line: r.lines, Column: 1, Err: csv.ErrFieldCount}
		}
		return r.fields, nil
	}
}

// peek returns the next line, with its end, without reading it. It is not whole if it exceeds the buffer or the input
// has failed.
func (r *csvRecords) peek() (line []byte, whole bool) {
	for seen := 0; ; {
		held, _ := r.in.Peek(r.in.Buffered())
		if i := bytes.IndexByte(held[seen:], '\n'); i >= 0 {
			return held[:seen+i+1], true
		}
		if seen = len(held); seen == r.in.Size() {
			return nil, false
		}
		if _, err := r.in.Peek(seen + 1); err == io.EOF {
			held, _ = r.in.Peek(r.in.Buffered())
			return held, true
		} else if err != nil {
			return nil, false
		}
	}
}

// cut splits a line into fields.
func (r *csvRecords) cut(text string) {
	r.fields = r.fields[:0]
	for at := 0; at >= 0; {
		field := text
		if at = strings.IndexByte(text, r.delimiter); at >= 0 {
			field, text = text[:at], text[at+1:]
		}
		if r.trim {
			field = strings.TrimLeftFunc(field, unicode.IsSpace)
		}
		r.fields = append(r.fields, field)
	}
}

// readQuoted reads a record with encoding/csv.
func (r *csvRecords) readQuoted() ([]string, error) {
	r.quoted.FieldsPerRecord = r.columns
	*r.keep = crlfReader{in: r.in}
	fields, err := r.quoted.Read()
	if p, ok := errors.AsType[*csv.ParseError](err); ok {
		p.StartLine, p.Line = p.StartLine+r.split, p.Line+r.split
	}
	r.columns = r.quoted.FieldsPerRecord
	r.lines++
	for _, field := range fields {
		r.lines += strings.Count(field, "\n")
	}
	return fields, err
}

// line returns the line of a field of the last record.
func (r *csvRecords) line(field int) int {
	if !r.isQuoted {
		return r.lines
	}
	line, _ := r.quoted.FieldPos(field)
	return line + r.split
}

// crlfReader reads a record for encoding/csv. That drops the CR of a CRLF, so crlfReader doubles each such CR inside
// quotes. Each Read ends with the line, so that encoding/csv does not read beyond the record.
type crlfReader struct {
	in      *bufio.Reader
	inside  bool // quotes
	last    byte
	doubled bool // a CR was added, and the LF follows
}

func (r *crlfReader) Read(p []byte) (int, error) {
	if _, err := r.in.Peek(1); err != nil {
		return 0, err
	}
	line, _ := r.in.Peek(min(r.in.Buffered(), len(p)))
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line = line[:i+1]
	}
	n := copy(p, line)
	r.inside = r.inside != (bytes.Count(line, []byte{'"'})%2 == 1)
	if n > 1 {
		r.last = line[n-2]
	}
	if r.doubled = !r.doubled && r.inside && r.last == '\r' && line[n-1] == '\n'; r.doubled {
		p[n-1] = '\r'
		_, _ = r.in.Discard(n - 1)
		return n, nil
	}
	r.last = line[n-1]
	_, _ = r.in.Discard(n)
	return n, nil
}
