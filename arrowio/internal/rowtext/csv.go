package rowtext

import (
	"bytes"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/embedd/embedd/arrowio/internal/number"
	"github.com/embedd/embedd/arrowio/wire"
)

// ReadCSV reads a message of a header line and rows, by RFC 4180: fields are separated by commas, and those in quotes
// may hold commas, line breaks and doubled quotes. Empty lines are skipped. A row that cannot be read has an error, and
// the next one begins on the next line. It panics with a *wire.Error.
func ReadCSV(msg []byte, l Limits) *Table {
	t := newTable(msg, l)
	t.Shape = CSV
	r := csvReader{msg: msg, at: startOf(msg), maxFields: l.Fields + 1}
	if !r.next() {
		panic(notCSV("the message is empty").WithHint("begin each message with the names of the columns"))
	}
	if r.fault != nil {
		panic(r.fault)
	}
	t.Head = Cell{Lo: int32(r.lo), Hi: int32(r.hi)}
	names := map[string]bool{}
	for _, f := range r.fields {
		name := Field(msg[f.Lo:f.Hi], f.Kind)
		if f.Kind != Quoted { // quotes are around what has a space at its ends
			name = strings.TrimSpace(name)
		}
		switch {
		case !utf8.ValidString(name):
			panic(notCSV("the name of a column is not UTF-8"))
		case name == "":
			panic(notCSV("a column has no name").WithHint("name each column in the first line"))
		case names[name]:
			panic(notCSV("two columns have this name").WithHint("rename one").In(name))
		}
		names[name] = true
		t.column(name)
	}
	r.maxFields = len(t.Columns)
	isUTF8 := utf8.Valid(msg)
	for r.next() {
		from := len(t.Cells)
		switch {
		case r.fault != nil:
		case r.count != len(t.Columns):
			r.fault = notCSV("the line has %d fields, and the header %d", r.count, len(t.Columns)).WithHint(
				"give each row the fields of the header, and quote a field that holds a comma")
		case !isUTF8 && !utf8.Valid(msg[r.lo:r.hi]):
			r.fault = notCSV("the line is not UTF-8")
		default:
			for k, f := range r.fields {
				if f.Column = int32(k); f.Lo < f.Hi {
					t.add(f)
				}
			}
		}
		t.end(r.lo, r.hi, from, r.fault)
	}
	t.summarize()
	return t
}

// Field returns the text of a CSV field of a kind.
func Field(raw []byte, k Kind) string {
	if k != Quoted {
		return string(raw)
	}
	inside := raw[1 : len(raw)-1]
	if bytes.IndexByte(inside, '"') >= 0 {
		inside = bytes.ReplaceAll(inside, []byte(`""`), []byte(`"`))
	}
	return string(inside)
}

// FieldKind returns what the text of a CSV field is: null, true, false, a number or text. Digits after a leading zero
// are text: they identify something.
func FieldKind(raw []byte) Kind {
	word := unsafe.String(unsafe.SliceData(raw), len(raw))
	word = strings.TrimSpace(word)
	if kind, _, _ := number.Scan(word, '.'); kind != number.None {
		if digits := strings.TrimLeft(word, "+-"); kind == number.Integer && len(digits) > 1 && digits[0] == '0' {
			return String
		}
		return Number
	}
	if number.IsMissing(word) || word == `""` {
		return Null
	}
	if v, ok := number.ParseBool(word); ok && v {
		return True
	} else if ok {
		return False
	}
	if _, ok := number.Parse(word, '.'); ok { // an infinity
		return Number
	}
	return String
}

// csvReader splits lines into fields.
type csvReader struct {
	msg    []byte
	at     int
	lo, hi int    // of the last row, without its line break
	fields []Cell // the first maxFields of a row
	count  int    // of all of its fields
	fault  *wire.Error

	maxFields int
}

// add adds a field to the row.
func (r *csvReader) add(f Cell) {
	if r.count++; r.count <= r.maxFields {
		r.fields = append(r.fields, f)
	}
}

// next reads the next row that is not empty. It returns false at the end.
func (r *csvReader) next() bool {
	for r.at < len(r.msg) {
		lo := r.at
		hi, next := lineEnd(r.msg, lo)
		if lo == hi {
			r.at = next
			continue
		}
		r.lo, r.fields, r.count, r.fault = lo, r.fields[:0], 0, nil
		if bytes.IndexByte(r.msg[lo:hi], '"') >= 0 {
			if r.quoted(); r.fault == nil {
				return true
			}
		} else {
			r.plain(lo, hi)
		}
		r.hi, r.at = hi, next
		return true
	}
	return false
}

// plain splits a line without quotes.
func (r *csvReader) plain(lo, hi int) {
	for {
		n := bytes.IndexByte(r.msg[lo:hi], ',')
		if n < 0 {
			r.add(Cell{Lo: int32(lo), Hi: int32(hi), Kind: Plain, Name: -1})
			return
		}
		r.add(Cell{Lo: int32(lo), Hi: int32(lo + n), Kind: Plain, Name: -1})
		lo += n + 1
	}
}

// quoted splits a row that has quotes, over as many lines as they span.
func (r *csvReader) quoted() {
	for at := r.lo; ; {
		f := Cell{Lo: int32(at), Kind: Plain, Name: -1}
		if at < len(r.msg) && r.msg[at] == '"' {
			f.Kind = Quoted
			if at = closing(r.msg, at+1); at < 0 {
				r.fault = notCSV("a quote is not closed")
				return
			}
		} else {
			for at < len(r.msg) && r.msg[at] != ',' && r.msg[at] != '\n' && r.msg[at] != '"' {
				at++
			}
		}
		f.Hi = int32(at)
		if at < len(r.msg) && r.msg[at] == ',' {
			r.add(f)
			at++
			continue
		}
		next, ok := lineBreak(r.msg, at)
		if f.Kind == Plain && ok && at > int(f.Lo) && at < len(r.msg) && r.msg[at-1] == '\r' {
			f.Hi--
		}
		if !ok {
			r.fault = notCSV("a quote inside a field, at byte %d of the line", at-r.lo).WithHint(
				"put the field into quotes, and write a quote inside it twice")
			return
		}
		r.add(f)
		r.hi, r.at = int(f.Hi), next
		return
	}
}

// closing returns the position behind the quote that closes a field, -1 if there is none.
func closing(msg []byte, at int) int {
	for {
		n := bytes.IndexByte(msg[at:], '"')
		if n < 0 {
			return -1
		}
		if at += n + 1; at == len(msg) || msg[at] != '"' {
			return at
		}
		at++
	}
}

// lineBreak returns where the next line begins if a line ends at this position.
func lineBreak(msg []byte, at int) (next int, ok bool) {
	switch {
	case at == len(msg):
		return at, true
	case msg[at] == '\n':
		return at + 1, true
	case msg[at] == '\r' && at+1 < len(msg) && msg[at+1] == '\n':
		return at + 2, true
	}
	return 0, false
}

// notCSV returns an error with the code and the usual hint.
func notCSV(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.NotCSV, format, args...).WithHint(
		"send a line of names and then rows, as RFC 4180 says, or set input.format to the format of the messages")
}
