package rowtext

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/embedd/embedd/arrowio/wire"
)

// A jsonReader appends rows of JSON to a table. The decoder checks the syntax and UTF-8; duplicate names are found by
// the columns that they name, which is several times as fast for rows of many fields.
type jsonReader struct {
	t     *Table
	in    bytes.Buffer
	dec   *jsontext.Decoder
	base  int // position of the decoder's input in the message
	names names
	// of the last message: the next one usually has as many
	cells, columns int
}

var readers = sync.Pool{New: func() any { return &jsonReader{dec: jsontext.NewDecoder(&bytes.Buffer{})} }}

var anyNames = jsontext.AllowDuplicateNames(true)

func newJSONReader(msg []byte, l Limits) *jsonReader {
	r := readers.Get().(*jsonReader)
	r.t = &Table{Data: msg, limits: l, Cells: make([]Cell, 0, min(r.cells, len(msg)/4)),
		Columns: make([]Column, 0, min(r.columns, len(msg)/4))}
	r.names.begin()
	return r
}

// close lets other messages use the reader.
func (r *jsonReader) close() {
	r.cells, r.columns = len(r.t.Cells), len(r.t.Columns)
	r.t, r.in = nil, bytes.Buffer{}
	r.dec.Reset(&r.in)
	readers.Put(r)
}

// open starts to read the bytes lo to hi-1 of the message.
func (r *jsonReader) open(lo, hi int) {
	r.base, r.in = lo, *bytes.NewBuffer(r.t.Data[lo:hi:hi])
	r.dec.Reset(&r.in, anyNames)
}

// at returns the position behind what was read.
func (r *jsonReader) at() int { return r.base + int(r.dec.InputOffset()) }

// ReadJSON reads a message of one JSON value. It panics with a *wire.Error.
func ReadJSON(msg []byte, l Limits) *Table {
	r := newJSONReader(msg, l)
	defer r.close()
	r.open(0, len(msg))
	t := r.t
	switch kind := r.dec.PeekKind(); kind {
	case '[':
		t.Shape = Array
		r.array()
		r.ended()
	case '{':
		r.row()
		r.ended()
		if columns, index, data, ok := r.split(); ok {
			*t = Table{Data: msg, Shape: Split, limits: l}
			r.readSplit(columns, index, data)
		}
	default:
		if _, err := r.dec.ReadValue(); err != nil {
			panic(r.syntax(err))
		}
		panic(notJSON("the message is a JSON %s, and rows are objects", kindName(kind)))
	}
	t.summarize()
	return t
}

// ended checks that nothing follows the message's value.
func (r *jsonReader) ended() {
	if _, err := r.dec.ReadToken(); err != io.EOF {
		panic(notJSON("the message continues after its JSON value, at byte %d", r.at()).WithHint(
			"send one object, or an array of objects; with input.format: ndjson an object a line"))
	}
}

// ReadLines reads a message of JSON objects, one a line. Lines that are none are rows with an error.
func ReadLines(msg []byte, l Limits) *Table {
	r := newJSONReader(msg, l)
	defer r.close()
	r.t.Shape = Lines
	for lo := 0; lo < len(msg); {
		hi, next := lineEnd(msg, lo)
		if line := bytes.Trim(msg[lo:hi], jsonSpace); len(line) > 0 {
			r.line(lo, hi)
		}
		lo = next
	}
	r.t.summarize()
	return r.t
}

// jsonSpace are the characters that JSON allows between values.
const jsonSpace = " \t\r\n"

// lineEnd returns the end of the line that begins at lo, without its line break, and where the next one begins.
func lineEnd(msg []byte, lo int) (hi, next int) {
	n := bytes.IndexByte(msg[lo:], '\n')
	if n < 0 {
		return len(msg), len(msg)
	}
	hi, next = lo+n, lo+n+1
	if n > 0 && msg[hi-1] == '\r' {
		hi--
	}
	return hi, next
}

// line reads a line as a row.
func (r *jsonReader) line(lo, hi int) {
	from := len(r.t.Cells)
	r.open(lo, hi)
	err := r.object()
	if err == nil && len(bytes.Trim(r.t.Data[r.at():hi], jsonSpace)) > 0 {
		err = notJSON("the line continues after its object, at byte %d", r.at()-lo)
	}
	r.t.end(lo, hi, from, err)
}

// array reads an array of objects.
func (r *jsonReader) array() {
	if _, err := r.dec.ReadToken(); err != nil {
		panic(r.syntax(err))
	}
	for {
		switch kind := r.dec.PeekKind(); kind {
		case '{':
			r.row()
			continue
		case ']':
		default:
			v, err := r.dec.ReadValue()
			if err != nil {
				panic(r.syntax(err))
			}
			r.t.end(r.at()-len(v), r.at(), len(r.t.Cells), notJSON("an element is a JSON %s, and rows are objects",
				kindName(kind)))
			continue
		}
		if _, err := r.dec.ReadToken(); err != nil {
			panic(r.syntax(err))
		}
		return
	}
}

// row reads an object as a row. An object with two fields of one name can be skipped; a syntax error cannot.
func (r *jsonReader) row() {
	from := len(r.t.Cells)
	before := r.at()
	err := r.object()
	if err != nil && r.dec.StackDepth() > depthOf(r.t.Shape) {
		panic(err)
	}
	lo := before + bytes.IndexByte(r.t.Data[before:], '{')
	r.t.end(lo, r.at(), from, err)
}

// depthOf is the depth at which the rows of a shape begin.
func depthOf(s Shape) int {
	if s == Array {
		return 1
	}
	return 0
}

// object reads the cells of an object. After an error about a field it reads on to the object's end.
func (r *jsonReader) object() (fault *wire.Error) {
	if kind := r.dec.PeekKind(); kind != '{' {
		if _, err := r.dec.ReadValue(); err != nil {
			return r.syntax(err)
		}
		return notJSON("the line is a JSON %s, and rows are objects", kindName(kind))
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return r.syntax(err)
	}
	for k := 0; ; k++ {
		if r.dec.PeekKind() == '}' {
			_, err := r.dec.ReadToken()
			if err != nil {
				return r.syntax(err)
			}
			return fault
		}
		name, err := r.dec.ReadValue()
		if err != nil {
			return r.syntax(err)
		}
		at := r.at() - len(name)
		column := r.names.columnOf(r.t, r.names.find(name, k))
		value, err := r.dec.ReadValue()
		if err != nil {
			return r.syntax(err)
		}
		hi := r.at()
		c := Cell{Column: column, Name: int32(at), Lo: int32(hi - len(value)), Hi: int32(hi), Kind: KindOf(value)}
		if e := r.check(&c, value); e != nil && fault == nil {
			fault = e
		}
		if !r.t.add(c) && fault == nil {
			fault = notJSON("an object has two fields of this name").WithHint("give each field once").In(
				r.t.Columns[column].Name)
		}
	}
}

// check checks a nested value.
func (r *jsonReader) check(c *Cell, value jsontext.Value) *wire.Error {
	if c.Kind != Nested {
		return nil
	}
	switch {
	case depth(value) >= r.t.limits.Depth:
		return wire.Errorf(wire.TooManyFields, "a value is nested more than %d deep", r.t.limits.Depth).WithHint(
			"flatten it or leave it out").In(r.t.Columns[c.Column].Name)
	case bytes.IndexByte(value, '{') >= 0 && !value.IsValid(): // names are compared, which the reader does not
		return notJSON("an object in it has two fields of one name").WithHint("give each field once").In(
			r.t.Columns[c.Column].Name)
	}
	return nil
}

// Unquote returns the text of a JSON string that was read.
func Unquote(raw []byte) string {
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

// KindOf returns the kind of a JSON value.
func KindOf(value []byte) Kind {
	switch value[0] {
	case 'n':
		return Null
	case 'f':
		return False
	case 't':
		return True
	case '"':
		return String
	case '[':
		for _, other := range []byte(`"{tf`) {
			if bytes.IndexByte(value, other) >= 0 {
				return Nested
			}
		}
		if bytes.IndexByte(value[1:], '[') < 0 {
			return Numbers
		}
		return Nested
	case '{':
		return Nested
	}
	return Number
}

// depth returns the levels of nesting of a valid value.
func depth(value []byte) (deepest int) {
	now := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			for i++; value[i] != '"'; i++ {
				if value[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			now++
			deepest = max(deepest, now)
		case ']', '}':
			now--
		}
	}
	return deepest
}

// split returns the parts of a message that was read as one object, if it is one of columns and data.
func (r *jsonReader) split() (columns, index, data *Cell, ok bool) {
	t := r.t
	if t.Rows[0].Err != nil || len(t.Cells) < 2 || len(t.Cells) > 3 {
		return nil, nil, nil, false
	}
	for i := range t.Cells {
		c := &t.Cells[i]
		switch isArray := t.Data[c.Lo] == '['; {
		case t.Columns[c.Column].Name == "columns" && isArray:
			columns = c
		case t.Columns[c.Column].Name == "data" && isArray:
			data = c
		case t.Columns[c.Column].Name == "index" && isArray:
			index = c
		default:
			return nil, nil, nil, false
		}
	}
	return columns, index, data, columns != nil && data != nil
}

// readSplit reads columns, index and data.
func (r *jsonReader) readSplit(columns, index, data *Cell) {
	t := r.t
	r.names.begin()
	t.Head = *columns
	r.elements(int(columns.Lo), int(columns.Hi), func(lo int, v jsontext.Value) {
		if v[0] != '"' {
			panic(notJSON("a name in columns is a JSON %s", kindName(v.Kind())).WithHint("name columns with text"))
		}
		column := len(t.Columns)
		if one := r.names.find(v, column); int(r.names.columnOf(t, one)) != column {
			panic(notJSON("two columns have this name").WithHint("rename one").In(one.text))
		}
	})
	if index != nil {
		t.Index = []Cell{}
		r.elements(int(index.Lo), int(index.Hi), func(lo int, v jsontext.Value) {
			t.spend(cellBytes)
			t.Index = append(t.Index, Cell{Lo: int32(lo), Hi: int32(lo + len(v)), Kind: KindOf(v)})
		})
	}
	var rows []Cell
	r.elements(int(data.Lo), int(data.Hi), func(lo int, v jsontext.Value) {
		t.spend(cellBytes)
		rows = append(rows, Cell{Lo: int32(lo), Hi: int32(lo + len(v))})
	})
	for _, row := range rows {
		r.splitRow(int(row.Lo), int(row.Hi))
	}
	if t.Index != nil && len(t.Index) != len(t.Rows) {
		panic(notJSON("index has %d elements and data %d rows", len(t.Index), len(t.Rows)).WithHint(
			"send one index for each row, or none"))
	}
}

// splitRow reads a row of data.
func (r *jsonReader) splitRow(lo, hi int) {
	t := r.t
	from, k := len(t.Cells), 0
	var fault *wire.Error
	if t.Data[lo] != '[' {
		t.end(lo, hi, from, notJSON("a row in data is no array"))
		return
	}
	r.elements(lo, hi, func(at int, v jsontext.Value) {
		if k < len(t.Columns) {
			c := Cell{Column: int32(k), Name: -1, Lo: int32(at), Hi: int32(at + len(v)), Kind: KindOf(v)}
			if e := r.check(&c, v); e != nil && fault == nil {
				fault = e
			}
			t.add(c)
		}
		k++
	})
	if k != len(t.Columns) {
		fault = notJSON("a row in data has %d elements and there are %d columns", k, len(t.Columns))
	}
	t.end(lo, hi, from, fault)
}

// elements calls f with the elements of a checked array, and where they begin.
func (r *jsonReader) elements(lo, hi int, f func(lo int, v jsontext.Value)) {
	r.open(lo, hi)
	if _, err := r.dec.ReadToken(); err != nil {
		panic(r.syntax(err))
	}
	for r.dec.PeekKind() != ']' {
		v, err := r.dec.ReadValue()
		if err != nil {
			panic(r.syntax(err))
		}
		f(r.at()-len(v), v)
	}
}

// syntax returns the error for what the decoder found.
func (r *jsonReader) syntax(err error) *wire.Error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return notJSON("the JSON ends early, after %d bytes", len(r.t.Data))
	}
	var s *jsontext.SyntacticError
	if !errors.As(err, &s) {
		return notJSON("%s", wire.Clip(err.Error()))
	}
	what := strings.TrimPrefix(s.Err.Error(), "jsontext: ")
	return notJSON("the JSON is invalid at byte %d: %s", r.base+int(s.ByteOffset), wire.Clip(what))
}

// notJSON returns an error with the code and the usual hint.
func notJSON(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.NotJSON, format, args...).WithHint(
		"send an object of fields, or set input.format to the format of the messages")
}

// kindName returns the name of a kind of JSON values in errors.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '[':
		return "array"
	}
	return "value"
}
