package ipc

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/embedd/embedd/arrowio/wire"
)

// TestBeginsOfFrames: bytes that are not a frame are an error that says what they look like and how many there are.
func TestBeginsOfFrames(t *testing.T) {
	const marker = "\xff\xff\xff\xff"
	for _, c := range []struct {
		rest  string
		first bool
		code  wire.Code // "": the stream ends
		want  string
	}{
		{"", false, "", ""}, {"", true, wire.NotArrow, "the message is empty"},
		{"ARROW1\x00\x00", true, wire.NotArrow, "an Arrow IPC file, not a stream"},
		{"PAR1....", true, wire.NotArrow, "a Parquet file"},
		{`{"a":1}`, true, wire.NotArrow, "looks like JSON"}, {"[1]", true, wire.NotArrow, "looks like JSON"},
		{"abc", true, wire.NotArrow, "does not begin with an Arrow IPC stream marker"},
		{"\xff\xff\xff", true, wire.NotArrow, "does not begin with"},
		{"\xff", false, wire.Truncated, "a frame's length needs 8 bytes and 1 are left"},
		{"\xff\xff\xff", false, wire.Truncated, "a frame's length needs 8 bytes and 3 are left"},
		{marker, false, wire.Truncated, "a frame's length needs 8 bytes and 4 are left"},
		{marker + "\x10\x00\x00", true, wire.Truncated, "a frame's length needs 8 bytes and 7 are left"},
		{"a", false, wire.Malformed, "1 bytes follow that are not an Arrow frame"},
		{"\xff\xff\x00", false, wire.Malformed, "3 bytes follow that are not an Arrow frame"},
		{"abcde", false, wire.Malformed, "5 bytes follow that are not an Arrow frame"},
		{marker + "\x00\x00\x00\x00", false, "", ""},
		{marker + "\x00\x00\x00\x00\x00", false, wire.Malformed, "1 bytes follow the end of the stream"},
		{marker + "\x08\x00\x00\x00abcdefgh", false, wire.Malformed, "declares 8 bytes of metadata"},
		{marker + "\x14\x00\x00\x00" + strings.Repeat("a", 24), false, wire.Malformed, "declares 20 bytes of metadata"},
		{marker + "\xf8\xff\xff\xff", false, wire.Malformed, "declares -8 bytes of metadata"},
		{marker + "\x10\x00\x00\x00" + strings.Repeat("a", 15), false, wire.Truncated,
			"a frame's metadata needs 16 bytes and 15 are left"},
	} {
		var end bool
		e := refusal(func() { _, _, end = NextFrame([]byte(c.rest), c.first) })
		switch {
		case c.code == "" && (e != nil || !end):
			t.Errorf("%q: end %v, %v", c.rest, end, e)
		case c.code != "" && (e == nil || e.Code != c.code || !strings.Contains(e.Detail, c.want) || e.Hint == ""):
			t.Errorf("%q, first %v: %+v, want %s: %q", c.rest, c.first, e, c.code, c.want)
		}
		if asJSON := strings.Contains(c.want, "JSON"); e != nil && strings.Contains(e.Hint, "input.format") != asJSON {
			t.Errorf("%q: the fix is %q", c.rest, e.Hint)
		}
	}
}

// refusal returns the error that f panics with.
func refusal(f func()) (e *wire.Error) {
	defer func() {
		if r := recover(); r != nil {
			e = r.(*wire.Error)
		}
	}()
	f()
	return nil
}

// TestErrorsOfEntries: an error about a row of a dictionary is about an entry.
func TestErrorsOfEntries(t *testing.T) {
	e := EntryError(Malformed("wrong").At(3))
	if e.Row != -1 || e.Detail != "dictionary entry 3: wrong" {
		t.Errorf("%+v", e)
	}
	if e = EntryError(Malformed("wrong").At(0)); e.Row != -1 || e.Detail != "dictionary entry 0: wrong" {
		t.Errorf("%+v", e)
	}
	if e = EntryError(Malformed("wrong")); e.Row != -1 || e.Detail != "wrong" {
		t.Errorf("an error without a row: %+v", e)
	}
}

// TestTypeNames: each type has a name, and other numbers have none.
func TestTypeNames(t *testing.T) {
	for typ, want := range map[int]string{-1: "unknown type", 0: "no type", TypeNull: "null", TypeInt: "integer",
		TypeFloat: "floating point", TypeBinary: "binary", TypeUtf8: "string", TypeBool: "boolean", TypeDecimal: "decimal",
		TypeDate: "date", TypeTime: "time", TypeTimestamp: "timestamp", TypeInterval: "interval", TypeList: "list",
		TypeStruct: "struct", TypeUnion: "union", TypeFixedBinary: "fixed-size binary", TypeFixedList: "fixed-size list",
		TypeMap: "map", TypeDuration: "duration", TypeLargeBinary: "large binary", TypeLargeUtf8: "large string",
		TypeLargeList: "large list", TypeRunEnd: "run-end encoded", TypeBinaryView: "binary view",
		TypeUtf8View: "string view", TypeListView: "list view", TypeLargeListView: "large list view", 27: "unknown type"} {
		if got := typeName(typ); got != want {
			t.Errorf("type %d is %q, want %q", typ, got, want)
		}
	}
	l := Layout{Fields: []Field{{Type: TypeFixedList, Dict: -1}, {Type: TypeLargeList, Dict: -1},
		{Type: TypeList, Dict: -1},
		{Type: TypeUtf8, Dict: 0}}}
	if got := l.Describe(0); got != "fixed-size list of large list of list of dictionary of string" {
		t.Error(got)
	}
}

// TestPieces: a piece of a buffer has the bytes of its values, those that are there, and no others.
func TestPieces(t *testing.T) {
	all := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	b := memory.NewBufferBytes(all)
	for _, c := range []struct {
		from, n, width int
		want           []byte
	}{
		{0, 5, 2, all}, {1, 2, 2, all[2:6]}, {3, 2, 2, all[6:]}, {3, 3, 2, all[6:]}, {5, 1, 2, nil}, {6, 1, 2, nil},
		{-1, 1, 2, nil}, {1, -1, 2, nil}, {0, 0, 2, nil}, {0, 3, 1, all[:3]},
	} {
		if got := piece(b, c.from, c.n, c.width); !slices.Equal(got, c.want) || cap(got) != len(got) {
			t.Errorf("%d values of %d bytes from %d: %v of capacity %d, want %v", c.n, c.width, c.from, got, cap(got), c.want)
		}
	}
	if piece(nil, 0, 3, 2) != nil || bitsOf(nil, 0, 3) != nil || bitsOf(b, 0, 0) != nil {
		t.Error("there are values of no buffer, or none of one")
	}
	if bits := bitsOf(b, 73, 7); len(bits) != 1 || bits[0] != 9>>1 {
		t.Errorf("the last 7 bits are %b", bits)
	}
	if bits := bitsOf(b, 73, 8); bits == nil || len(bits) != 0 {
		t.Errorf("of a bitmap that is a bit too short there are %b", bits)
	}
}

// TestOffsetsOfSlices: offsets of a slice are counted from 0, and the range is that of the data.
func TestOffsetsOfSlices(t *testing.T) {
	for _, width := range []int{4, 8} {
		b := memory.NewBufferBytes(words(width, 0, 2, 5, 5, 9))
		for _, c := range []struct {
			from, rows, lo, hi int
			want               []int
		}{
			{0, 4, 0, 9, []int{0, 2, 5, 5, 9}}, {1, 3, 2, 9, []int{0, 3, 3, 7}}, {0, 1, 0, 2, []int{0, 2}},
			{3, 1, 5, 9, []int{0, 4}}, {2, 1, 5, 5, []int{0, 0}}, {4, 1, 0, 0, nil}, {1, 0, 0, 0, nil}, {0, 5, 0, 0, nil},
		} {
			out, lo, hi := offsetsOf(b, width, c.from, c.rows)
			if !slices.Equal(out, words(width, c.want...)) || lo != c.lo || hi != c.hi {
				t.Errorf("%d rows from %d: %v of %d to %d, want %v of %d to %d", c.rows, c.from, out, lo, hi, c.want, c.lo, c.hi)
			}
		}
	}
}
