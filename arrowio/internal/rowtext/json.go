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

// A jsonReader appends rows of JSON to a table. The library's decoder checks the syntax and the UTF-8 of a message or a
// line in one step, and the reader walks over what it has checked. Duplicate names are found by the columns that they
// name, which is several times as fast for rows of many fields.
type jsonReader struct {
	t     *Table
	in    bytes.Buffer
	dec   *jsontext.Decoder
	at    int // position of the walk in the message
	names names
}

var readers = sync.Pool{New: func() any { return &jsonReader{dec: jsontext.NewDecoder(&bytes.Buffer{})} }}

var anyNames = jsontext.AllowDuplicateNames(true)

func newJSONReader(msg []byte, l Limits) *jsonReader {
	r := readers.Get().(*jsonReader)
	r.t, r.at = newTable(msg, l), startOf(msg)
	r.names.begin()
	return r
}

// close lets other messages use the reader.
func (r *jsonReader) close() {
	r.t, r.in = nil, bytes.Buffer{}
	r.dec.Reset(&r.in)
	readers.Put(r)
}

// check moves to the value that begins behind the position, and returns where it ends. Nothing is read behind hi.
func (r *jsonReader) check(hi int) (end int, err *wire.Error) {
	lo := r.at
	r.in = *bytes.NewBuffer(r.t.Data[lo:hi:hi])
	r.dec.Reset(&r.in, anyNames)
	value, e := r.dec.ReadValue()
	if e != nil {
		return 0, r.syntax(lo, e)
	}
	end = lo + int(r.dec.InputOffset())
	r.at = end - len(value)
	return end, nil
}

// ReadJSON reads a message of one JSON value. It panics with a *wire.Error.
func ReadJSON(msg []byte, l Limits) *Table {
	r := newJSONReader(msg, l)
	defer r.close()
	end, err := r.check(len(msg))
	if err != nil {
		panic(err)
	}
	if n := len(bytes.TrimLeft(msg[end:], jsonSpace)); n > 0 {
		panic(notJSON("the message continues after its JSON value, at byte %d", len(msg)-n).WithHint(
			"send one object, or an array of objects; with input.format: ndjson an object a line"))
	}
	t := r.t
	switch msg[r.at] {
	case '[':
		t.Shape = Array
		r.elements(r.row)
	case '{':
		r.row()
		if columns, index, data, ok := r.split(); ok {
			t.Shape, t.Columns, t.Rows, t.Cells = Split, t.Columns[:0], t.Rows[:0], t.Cells[:0]
			t.limits = l
			r.readSplit(columns, index, data)
		}
	default:
		panic(notJSON("the message is a JSON %s, and rows are objects", kindName(msg[r.at])))
	}
	t.summarize()
	return t
}

// ReadLines reads a message of JSON objects, one a line. Lines that are none are rows with an error.
func ReadLines(msg []byte, l Limits) *Table {
	r := newJSONReader(msg, l)
	defer r.close()
	r.t.Shape = Lines
	for lo := r.at; lo < len(msg); {
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
	r.at = lo
	end, err := r.check(hi)
	switch {
	case err != nil:
	case r.t.Data[r.at] != '{':
		err = notJSON("the line is a JSON %s, and rows are objects", kindName(r.t.Data[r.at]))
	default:
		err = r.object()
		if err == nil && len(bytes.Trim(r.t.Data[end:hi], jsonSpace)) > 0 {
			err = notJSON("the line continues after its object, at byte %d", end-lo)
		}
	}
	r.t.end(lo, hi, from, err)
}

// row reads a value as a row.
func (r *jsonReader) row() {
	lo, from := r.at, len(r.t.Cells)
	var err *wire.Error
	if c := r.t.Data[lo]; c == '{' {
		err = r.object()
	} else {
		r.value(&Cell{})
		err = notJSON("an element is a JSON %s, and rows are objects", kindName(c))
	}
	r.t.end(lo, r.at, from, err)
}

// object reads the cells of an object. After an error about a field it reads on to the object's end.
func (r *jsonReader) object() (fault *wire.Error) {
	r.skip()
	for one := &r.names.first; r.t.Data[r.at] != '}'; {
		c := Cell{Name: int32(r.at)}
		r.text()
		one = r.names.find(r.t.Data[c.Name:r.at], one)
		c.Column = r.names.columnOf(r.t, one)
		r.space()
		r.skip() // the colon
		if e := r.value(&c); e != nil && fault == nil {
			fault = e
		}
		if !r.t.add(c) && fault == nil {
			fault = notJSON("an object has two fields of this name").WithHint("give each field once").In(
				r.t.Columns[c.Column].Name)
		}
		r.comma()
	}
	r.at++
	return fault
}

// elements calls f with the position at each element of an array. f moves behind it.
func (r *jsonReader) elements(f func()) {
	r.skip()
	for r.t.Data[r.at] != ']' {
		f()
		r.comma()
	}
	r.at++
}

// space moves behind white space. What is valid ends with no white space.
func (r *jsonReader) space() {
	for r.t.Data[r.at] <= ' ' {
		r.at++
	}
}

// skip moves behind a character and the white space after it.
func (r *jsonReader) skip() {
	r.at++
	r.space()
}

// comma moves behind white space and a comma.
func (r *jsonReader) comma() {
	if r.space(); r.t.Data[r.at] == ',' {
		r.skip()
	}
}

// text moves behind a string.
func (r *jsonReader) text() {
	r.at = behindText(r.t.Data, r.at)
}

// behindText returns the position behind a string.
func behindText(data []byte, at int) int {
	for at++; data[at] != '"'; at++ {
		if data[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// value moves behind a value, and sets where it is and of what kind. The error is about a nested value.
func (r *jsonReader) value(c *Cell) *wire.Error {
	data, lo, depth := r.t.Data, r.at, 0
	switch data[lo] {
	case 'n':
		c.Kind, r.at = Null, lo+len("null")
	case 'f':
		c.Kind, r.at = False, lo+len("false")
	case 't':
		c.Kind, r.at = True, lo+len("true")
	case '"':
		c.Kind = String
		r.text()
	case '[':
		if n := bytes.IndexByte(data[lo:], ']'); areNumbers(data[lo+1 : lo+n]) {
			c.Kind, r.at = Numbers, lo+n+1
			break
		}
		fallthrough
	case '{':
		c.Kind = Nested
		r.at, depth = behindNested(data, lo)
	default:
		c.Kind = Number
		for b := data[r.at]; b > ' ' && b != ',' && b != ']' && b != '}'; b = data[r.at] {
			if r.at++; r.at == len(data) {
				break
			}
		}
	}
	c.Lo, c.Hi = int32(lo), int32(r.at)
	if c.Kind != Nested {
		return nil
	}
	value := jsontext.Value(data[lo:r.at])
	switch {
	case depth >= r.t.limits.Depth:
		return wire.Errorf(wire.TooManyFields, "a value is nested more than %d deep", r.t.limits.Depth).WithHint(
			"flatten it or leave it out").In(r.t.nameOf(c))
	case bytes.IndexByte(value, '{') >= 0 && !value.IsValid(): // names are compared, which the reader does not
		return notJSON("an object in it has two fields of one name").WithHint("give each field once").In(r.t.nameOf(c))
	}
	return nil
}

// areNumbers reports whether an array, up to its first closing bracket, is of numbers and nulls alone.
func areNumbers(inside []byte) bool {
	for _, other := range []byte(`"[{tf`) {
		if bytes.IndexByte(inside, other) >= 0 {
			return false
		}
	}
	return true
}

// behindNested returns the position behind an array or object, and its levels of nesting.
func behindNested(data []byte, at int) (end, deepest int) {
	for now := 0; ; {
		switch data[at] {
		case '"':
			at = behindText(data, at)
			continue
		case '[', '{':
			now++
			deepest = max(deepest, now)
		case ']', '}':
			if now--; now == 0 {
				return at + 1, deepest
			}
		}
		at++
	}
}

// Unquote returns the text of a JSON string that was read.
func Unquote(raw []byte) string {
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

// split returns the parts of a message that was read as one object, if it is one of columns and data.
func (r *jsonReader) split() (columns, index, data Cell, ok bool) {
	t := r.t
	if t.Rows[0].Err != nil || len(t.Cells) < 2 || len(t.Cells) > 3 {
		return columns, index, data, false
	}
	for _, c := range t.Cells {
		switch isArray := t.Data[c.Lo] == '['; {
		case t.Columns[c.Column].Name == "columns" && isArray:
			columns = c
		case t.Columns[c.Column].Name == "data" && isArray:
			data = c
		case t.Columns[c.Column].Name == "index" && isArray:
			index = c
		default:
			return columns, index, data, false
		}
	}
	return columns, index, data, columns.Hi > 0 && data.Hi > 0
}

// readSplit reads columns, index and data.
func (r *jsonReader) readSplit(columns, index, data Cell) {
	t := r.t
	r.names.begin()
	t.Head = columns
	r.at = int(columns.Lo)
	one := &r.names.first
	r.elements(func() {
		if c := t.Data[r.at]; c != '"' {
			panic(notJSON("a name in columns is a JSON %s", kindName(c)).WithHint("name columns with text"))
		}
		lo, column := r.at, len(t.Columns)
		r.text()
		if one = r.names.find(t.Data[lo:r.at], one); int(r.names.columnOf(t, one)) != column {
			panic(notJSON("two columns have this name").WithHint("rename one").In(one.text))
		}
	})
	if index.Hi > 0 {
		t.Index = []Cell{}
		r.at = int(index.Lo)
		r.elements(func() {
			t.spend(cellBytes)
			var c Cell
			_ = r.value(&c) // it was read as part of the index
			t.Index = append(t.Index, c)
		})
	}
	r.at = int(data.Lo)
	r.elements(r.splitRow)
	if t.Index != nil && len(t.Index) != len(t.Rows) {
		panic(notJSON("index has %d elements and data %d rows", len(t.Index), len(t.Rows)).WithHint(
			"send one index for each row, or none"))
	}
}

// splitRow reads a row of data.
func (r *jsonReader) splitRow() {
	t, lo := r.t, r.at
	from, k := len(t.Cells), 0
	if t.Data[lo] != '[' {
		r.value(&Cell{})
		t.end(lo, r.at, from, notJSON("a row in data is no array"))
		return
	}
	var fault *wire.Error
	r.elements(func() {
		c := Cell{Column: int32(k), Name: -1}
		if e := r.value(&c); e != nil && fault == nil {
			fault = e
		}
		if k < len(t.Columns) {
			t.add(c)
		}
		k++
	})
	if k != len(t.Columns) {
		fault = notJSON("a row in data has %d elements and there are %d columns", k, len(t.Columns))
	}
	t.end(lo, r.at, from, fault)
}

// syntax returns the error for what the decoder found in the bytes from a position on.
func (r *jsonReader) syntax(from int, err error) *wire.Error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return notJSON("the JSON ends early, after %d bytes", len(r.t.Data))
	}
	s, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return notJSON("%s", wire.Clip(err.Error()))
	}
	what, at := strings.TrimPrefix(s.Err.Error(), "jsontext: "), from+int(s.ByteOffset)
	invalid := notJSON("the JSON is invalid at byte %d: %s", at, wire.Clip(what))
	if rest := r.t.Data[min(at, len(r.t.Data)):]; bytes.HasPrefix(rest, []byte("NaN")) ||
		bytes.HasPrefix(rest, []byte("Infinity")) {
		return invalid.WithHint("JSON has no NaN and no infinity: write null for a missing value")
	}
	return invalid
}

// notJSON returns an error with the code and the usual hint.
func notJSON(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.NotJSON, format, args...).WithHint(
		"send an object of fields, or set input.format to the format of the messages")
}

// kindName returns the name in errors of the values that begin with a byte.
func kindName(first byte) string {
	switch first {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	return "number"
}
