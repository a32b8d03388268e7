package ipc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
)

// column describes a chunk of one column: its fields, depth first, and the length and null count of each.
type column struct {
	fields []Field
	nodes  []int64
	arrays [][]byte
	data   int // data buffers, of a view
}

func (c *column) check() string {
	l, at := &Layout{Fields: slices.Clone(c.fields), Columns: []int{0}}, 0
	for i := range l.Fields {
		l.Fields[i].Buffer = at
		at += ownBuffers[l.Fields[i].Kind]
	}
	k := &Chunk{Layout: l, Rows: int(c.nodes[0]), Arrays: c.arrays, Shift: []int{0, c.data}}
	for _, v := range c.nodes {
		k.nodes = le.AppendUint64(k.nodes, uint64(v))
	}
	dicts := []Chunk{{Rows: 2}}
	if e := k.Check(Limits{Rows: 1000}, dicts); e != nil {
		return e.Error()
	}
	return ""
}

// words are little-endian numbers of some bytes each.
func words(width int, v ...int) (b []byte) {
	for _, n := range v {
		b = append(b, le.AppendUint64(nil, uint64(n))[:width]...)
	}
	return b
}

// inline is a view of a short text.
func inline(s string) []byte {
	return append(append(words(4, len(s)), s...), make([]byte, inView-len(s))...)
}

func fixed(width int) Field { return Field{Kind: KindFixed, Width: width, Dict: -1, End: 1} }

func endingAt(f Field, end int) Field {
	f.End = end
	return f
}

// valid are columns of each kind whose buffers are just long enough.
func valid() map[string]*column {
	none, list := []byte{}, Field{Kind: KindList, Width: 4, Dict: -1, End: 2}
	entry := Field{Kind: KindStruct, Dict: -1, End: 4}
	return map[string]*column{
		"null":  {[]Field{{Kind: KindNull, Dict: -1, End: 1}}, []int64{3, 3}, nil, 0},
		"bool":  {[]Field{{Kind: KindBool, Dict: -1, End: 1}}, []int64{16, 0}, [][]byte{none, {5, 1}}, 0},
		"fixed": {[]Field{fixed(4)}, []int64{3, 0}, [][]byte{none, words(4, 1, 2, 3)}, 0},
		"nulls": {[]Field{fixed(1)}, []int64{9, 2}, [][]byte{{0xf5, 1}, make([]byte, 9)}, 0},
		"many": {[]Field{fixed(1)},
			[]int64{65, 2},
			[][]byte{append([]byte{0xfc}, slices.Repeat([]byte{255}, 8)...), make([]byte, 65)}, 0},
		"utf8": {[]Field{{Type: TypeUtf8, Kind: KindBinary, Width: 4, Dict: -1, End: 1}},
			[]int64{2, 0}, [][]byte{none, words(4, 0, 2, 3), []byte("äb")}, 0},
		"large": {[]Field{{Type: TypeLargeBinary, Kind: KindBinary, Width: 8, Dict: -1, End: 1}},
			[]int64{2, 0}, [][]byte{none, words(8, 0, 2, 3), {200, 0, 1}}, 0},
		"view": {[]Field{{Type: TypeUtf8View, Kind: KindView, Dict: -1, End: 1}},
			[]int64{2, 0}, [][]byte{none, append(inline("abc"), inline("twelve bytes")...)}, 0},
		"long": {[]Field{{Type: TypeUtf8View, Kind: KindView, Dict: -1, End: 1}},
			[]int64{1, 0},
			[][]byte{none, append(append(words(4, 13), "thir"...), words(4, 0, 0)...), []byte("thirteen byte")}, 1},
		"list": {[]Field{list, endingAt(fixed(4), 2)},
			[]int64{3, 0, 2, 0}, [][]byte{none, words(4, 0, 1, 1, 2), none, words(4, 7, 8)}, 0},
		"views": {[]Field{{Kind: KindListView, Width: 4, Dict: -1, End: 2}, endingAt(fixed(1), 2)},
			[]int64{3, 0, 2, 0}, [][]byte{none, words(4, 0, 1, 2), words(4, 2, 1, 0), none, {7, 8}}, 0},
		"fixed 2": {[]Field{{Kind: KindFixedList, Size: 2, Dict: -1, End: 2}, endingAt(fixed(1), 2)},
			[]int64{3, 0, 6, 0}, [][]byte{none, none, make([]byte, 6)}, 0},
		"struct": {[]Field{{Kind: KindStruct, Dict: -1, End: 2}, endingAt(fixed(1), 2)},
			[]int64{3, 0, 3, 0}, [][]byte{none, none, make([]byte, 3)}, 0},
		"map": {[]Field{{Type: TypeMap, Kind: KindList, Width: 4, Dict: -1, End: 4}, entry, endingAt(fixed(1), 3),
			endingAt(fixed(1), 4)},
			[]int64{2, 0, 2, 0, 2, 0, 2, 0}, [][]byte{none, words(4, 0, 1, 2), none, none, {1, 2}, none, {3, 4}}, 0},
		"sparse": {[]Field{{Kind: KindSparse, IDs: []byte{3, 7}, Dict: -1, End: 3}, endingAt(fixed(1), 2),
			endingAt(fixed(2), 3)},
			[]int64{3, 0, 3, 0, 3, 0}, [][]byte{{3, 7, 3}, none, {1, 2, 3}, none, words(2, 4, 5, 6)}, 0},
		"dense": {[]Field{{Kind: KindDense, IDs: []byte{3, 7}, Dict: -1, End: 3}, endingAt(fixed(1), 2),
			endingAt(fixed(1), 3)},
			[]int64{4, 0, 2, 0, 1, 0}, [][]byte{{3, 7, 3, 3}, words(4, 0, 0, 0, 1), none, {1, 2}, none, {3}}, 0},
		"runs": {[]Field{{Kind: KindRunEnd, Dict: -1, End: 3},
			{Kind: KindFixed, Width: 2, Number: Int16, Dict: -1, End: 2}, endingAt(fixed(1), 3)},
			[]int64{5, 0, 2, 0, 2, 0}, [][]byte{none, words(2, 2, 5), none, {1, 2}}, 0},
		"dictionary": {[]Field{{Kind: KindFixed, Width: 1, Number: Int8, Dict: 0, End: 1}},
			[]int64{3, 0}, [][]byte{none, {0, 1, 1}}, 0},
	}
}

// TestCheckOfLengths: each kind of column is accepted with buffers that are just long enough, and refused if one has a
// byte less, or if a length or a null count is another.
func TestCheckOfLengths(t *testing.T) {
	for name, c := range valid() {
		if e := c.check(); e != "" {
			t.Errorf("%s: %s", name, e)
		}
		for k, b := range c.arrays {
			if len(b) == 0 {
				continue
			}
			c.arrays[k] = b[:len(b)-1]
			if e := c.check(); e == "" {
				t.Errorf("%s: buffer %d is accepted without its last byte", name, k)
			}
			c.arrays[k] = b
		}
		for k := range c.nodes {
			for _, by := range []int64{1, -1, -c.nodes[k] - 1} {
				isLength := k%2 == 0
				if by == -1 && isLength || name == "null" && isLength {
					continue // a child may be longer than its parent needs
				}
				c.nodes[k] += by
				if e := c.check(); (e == "") != (name == "null" && c.nodes[k] == -1) { // its nulls are not counted
					t.Errorf("%s: number %d of the lengths and null counts %v is accepted", name, k, c.nodes)
				}
				c.nodes[k] -= by
			}
		}
	}
}

// TestCheckOfValues: values at the ends of what is valid, and one beyond.
func TestCheckOfValues(t *testing.T) {
	set := func(array int, b []byte) func(*column) { return func(c *column) { c.arrays[array] = b } }
	number := func(node int, v int64) func(*column) { return func(c *column) { c.nodes[node] = v } }
	typed := func(typ int, unit uint8, width int, v ...int) func(*column) {
		return func(c *column) {
			c.fields[0].Type, c.fields[0].Unit, c.fields[0].Width = typ, unit, width
			c.arrays[1] = words(width, v...)
			c.nodes[0] = int64(len(v))
		}
	}
	decimal := func(digits uint8, width int, v ...int) func(*column) {
		return func(c *column) {
			typed(TypeDecimal, 0, width, v...)(c)
			c.fields[0].Digits = digits
		}
	}
	const day = 86400
	for _, c := range []struct {
		of     string
		change func(*column)
		want   string // "": it is accepted
	}{
		{"utf8", set(1, words(4, 0, 3, 3)), ""},
		{"utf8", set(1, words(4, 1, 1, 3)), "UTF-8"},
		{"utf8", set(1, words(4, 0, 1, 3)), "UTF-8"},
		{"utf8", set(1, words(4, 0, 2, 1)), "offsets go back from 2 to 1"},
		{"utf8", set(1, words(4, -1, 2, 3)), "an offset of -1"},
		{"utf8", set(1, words(4, 0, 2, 4)), "offsets reach 4"},
		{"utf8", func(c *column) { c.nodes[0], c.arrays[1] = 0, nil }, ""},
		{"utf8", func(c *column) { c.nodes[0], c.arrays[1] = 0, words(4, 4) }, ""},
		{"large", set(1, words(8, 0, 2, 1)), "offsets go back from 2 to 1"},
		{"large", set(1, words(8, 0, 2, 4)), "offsets reach 4"},
		{"view", set(1, append(inline("abc"), append(words(4, 2), 'a', 'b', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)...)), "zeros"},
		{"view", set(1, append(inline("abc"), inline("\xff")...)), "UTF-8"},
		{"view", set(1, append(inline("abc"), words(4, -1, 0, 0, 0)...)), "a view of -1 bytes"},
		{"long", set(2, []byte("thirteen bytes")), ""},
		{"long", set(2, []byte("THIRteen byte")), "begins with"},
		{"long", set(1, append(append(words(4, 13), "thir"...), words(4, 1, 0)...)), "of data buffer 1"},
		{"long", set(1, append(append(words(4, 13), "thir"...), words(4, -1, 0)...)), "of data buffer -1"},
		{"long", set(1, append(append(words(4, 13), "thir"...), words(4, 0, 1)...)), "from 1"},
		{"long", set(1, append(append(words(4, 13), "thir"...), words(4, 0, -1)...)), "from -1"},
		{"long", set(2, []byte("thirteen byt\xc3")), "UTF-8"},
		{"long", set(2, []byte("thirteen byt\xc3\xa4")), "UTF-8"},
		{"list", set(1, words(4, 0, 0, 0, 0)), ""},
		{"list", set(1, words(4, 0, 1, 1, 3)), "offsets reach 3"},
		{"views", set(2, words(4, 2, 1, 1)), "a list of 1 elements from 2"},
		{"views", set(2, words(4, 2, 2, 0)), "a list of 2 elements from 1"},
		{"views", set(1, words(4, 0, 1, 3)), "a list of 0 elements from 3"},
		{"views", set(1, words(4, -1, 1, 2)), "from -1"},
		{"views", set(2, words(4, 2, -1, 0)), "a list of -1"},
		{"map", func(c *column) { c.nodes[5], c.arrays[3] = 1, []byte{2} }, "1 null keys"},
		{"sparse", set(0, []byte{3, 7, 4}), "type id 4"},
		{"sparse", set(0, []byte{7, 7, 7}), ""},
		{"dense", set(1, words(4, 0, 0, 1, 0)), "offset 0 into a child, after offset 1"},
		{"dense", set(1, words(4, 0, 1, 0, 1)), "offset 1 into a child of 1 rows"},
		{"dense", set(1, words(4, 0, -1, 0, 1)), "offset -1"},
		{"runs", set(1, words(2, 0, 5)), "run ends go from 0 to 0"},
		{"runs", set(1, words(2, 5, 5)), "run ends go from 5 to 5"},
		{"runs", set(1, words(2, 2, 4)), "the runs end at 4 of 5 rows"},
		{"runs", set(1, words(2, 2, 6)), ""},
		{"runs", number(4, 1), "2 run ends"},
		{"runs", func(c *column) { c.nodes, c.arrays[1] = []int64{0, 0, 0, 0, 0, 0}, nil }, ""},
		{"runs", func(c *column) { c.nodes, c.arrays[1] = []int64{1, 0, 0, 0, 0, 0}, nil }, "0 run ends"},
		{"dictionary", set(1, []byte{0, 1, 2}), "index 2 into a dictionary of 2 entries"},
		{"dictionary", set(1, []byte{0, 1, 255}), "index -1"},
		{"dictionary", func(c *column) { c.nodes[1], c.arrays = 1, [][]byte{{3}, {0, 1, 9}} }, ""}, // of a null
		{"dictionary", func(c *column) { // of a null in another byte
			c.nodes[0], c.nodes[1], c.arrays = 18, 1, [][]byte{{255, 255, 1}, append(make([]byte, 17), 9)}
		}, ""},
		{"dictionary", func(c *column) {
			c.nodes[0], c.nodes[1], c.arrays = 18, 1, [][]byte{{255, 254, 3}, append(make([]byte, 17), 9)}
		}, "index 9"},
		{"null", number(0, 1001), "1001 rows"},
		{"fixed 2", func(c *column) { c.fields[0].Size, c.nodes[0] = 0, 1000 }, ""},
		{"fixed 2", func(c *column) { c.fields[0].Size, c.nodes[0] = 0, 1001 }, "1001 rows"},
		{"fixed", func(c *column) { c.fields[0].Width, c.nodes[0] = 0, 1000 }, ""},
		{"fixed", func(c *column) { c.fields[0].Width, c.nodes[0] = 0, 1001 }, "1001 rows"},
		{"fixed", typed(TypeDate, 0, 4, 1, 2), ""}, // days
		{"fixed", typed(TypeDate, 1, 8, -day*1000, 0, day*1000), ""},
		{"fixed", typed(TypeDate, 1, 8, day*1000+1), "no whole number of days"},
		{"fixed", typed(TypeTime, 0, 4, 0, day-1), ""}, {"fixed", typed(TypeTime, 0, 4, day), "the limit is 86400"},
		{"fixed", typed(TypeTime, 1, 4, day*1000-1), ""}, {"fixed", typed(TypeTime, 1, 4, day*1000), "the limit is"},
		{"fixed", typed(TypeTime, 2, 8, day*1e6-1), ""}, {"fixed", typed(TypeTime, 2, 8, day*1e6), "the limit is"},
		{"fixed", typed(TypeTime, 3, 8, day*1e9-1), ""}, {"fixed", typed(TypeTime, 3, 8, day*1e9), "the limit is"},
		{"fixed", typed(TypeTime, 0, 4, -1), "a time of day of -1"},
		{"fixed", decimal(2, 4, 99, -99), ""}, {"fixed", decimal(2, 4, 100), "more than 2 digits"},
		{"fixed", decimal(2, 4, -100), "more than 2 digits"}, {"fixed", decimal(5, 8, 99999, -99999), ""},
		{"fixed", decimal(5, 8, -100000), "more than 5 digits"}, {"fixed", decimal(18, 8, 1e18-1), ""},
		{"fixed", decimal(18, 8, 1e18), "more than 18 digits"},
	} {
		k := valid()[c.of]
		c.change(k)
		if e := k.check(); (e == "") != (c.want == "") || !strings.Contains(e, c.want) {
			t.Errorf("%s of %v, %v: %q, want %q", c.of, k.nodes, k.arrays, e, c.want)
		}
	}
}

// TestReadInteger: each type of number at both ends of its range.
func TestReadInteger(t *testing.T) {
	for _, c := range []struct {
		of    Number
		width int
		v     int
		ok    bool
	}{
		{Int8, 1, 127, true}, {Int8, 1, -128, false}, {Int16, 2, 32767, true}, {Int16, 2, -32768, false},
		{Int32, 4, 1<<31 - 1, true}, {Int32, 4, -1 << 31, false}, {Int64, 8, 1<<63 - 1, true}, {Int64, 8, -1 << 63, false},
		{Uint8, 1, 255, true}, {Uint16, 2, 65535, true}, {Uint32, 4, 1<<32 - 1, true}, {Uint64, 8, -1, true},
		{Int8, 1, 0, true},
	} {
		if v, ok := ReadInteger(words(c.width, 1, 2, c.v), c.of, 2); v != uint64(c.v) || ok != c.ok {
			t.Errorf("%+v: %d, %v", c, v, ok)
		}
	}
}

// TestCountNulls compares with one bit after the other.
func TestCountNulls(t *testing.T) {
	bitmap := make([]byte, 40)
	for i := range bitmap {
		bitmap[i] = byte(i*37 + 11)
	}
	want := 0
	for rows := range 8 * len(bitmap) {
		if got := CountNulls(bitmap, rows); got != want {
			t.Fatalf("%d nulls of %d rows, want %d", got, rows, want)
		}
		if fmt.Sprintf("%08b", bitmap[rows/8])[7-rows%8] == '0' {
			want++
		}
	}
}

// TestTakeBits compares with one bit after the other, and a single span that begins on a byte is not copied.
func TestTakeBits(t *testing.T) {
	b := []byte{0xa5, 0x3c, 0xff, 0x01, 0x7e}
	bit := func(b []byte, k int) byte { return b[k/8] >> (k % 8) & 1 }
	for _, sel := range [][]Span{{{0, 40}}, {{8, 21}}, {{3, 30}}, {{0, 3}, {5, 29}}, {{0, 8}, {16, 24}, {31, 40}},
		{{7, 8}}} {
		var want []byte
		for _, s := range sel {
			for k := s.Lo; k < s.Hi; k++ {
				want = append(want, bit(b, k))
			}
		}
		out := TakeBits(b, sel, len(want))
		for k, v := range want {
			if bit(out, k) != v {
				t.Errorf("%v: bit %d is %d", sel, k, 1-v)
			}
		}
		if isView := &out[0] == &b[sel[0].Lo/8]; isView != (len(sel) == 1 && sel[0].Lo%8 == 0) ||
			len(out) != (len(want)+7)/8 {
			t.Errorf("%v: a view %v, of %d bytes", sel, isView, len(out))
		}
	}
	if TakeBits(nil, []Span{{0, 8}}, 8) != nil || TakeBits(b, nil, 0) != nil {
		t.Error("there are bits of no bitmap, or none of one")
	}
}

// TestChildCount: each kind of nested column has its number of children, a union without ids up to 128.
func TestChildCount(t *testing.T) {
	refused := func(f Field, n int) (refused bool) {
		defer func() { refused = recover() != nil }()
		childCount(&f, n)
		return false
	}
	for kind, want := range map[Kind]int{KindNull: 0, KindFixed: 0, KindBinary: 0, KindView: 0, KindList: 1,
		KindListView:  1,
		KindFixedList: 1, KindRunEnd: 2} {
		for n := range 4 {
			if got := refused(Field{Kind: kind}, n); got != (n != want) {
				t.Errorf("kind %d with %d children: refused %v", kind, n, got)
			}
		}
	}
	for _, kind := range []Kind{KindSparse, KindDense} {
		if refused(Field{Kind: kind}, 128) || !refused(Field{Kind: kind}, 129) ||
			refused(Field{Kind: kind, IDs: []byte{9, 5}}, 2) || !refused(Field{Kind: kind, IDs: []byte{9, 5}}, 3) {
			t.Errorf("kind %d: the number of children is not that of the ids", kind)
		}
		f := Field{Kind: kind}
		if childCount(&f, 3); !slices.Equal(f.IDs, []byte{0, 1, 2}) {
			t.Errorf("children without ids are numbered %v", f.IDs)
		}
	}
	if refused(Field{Kind: KindStruct}, 7) {
		t.Error("a struct of 7 children is refused")
	}
}

// TestChildErrors: an error about a value of a child names the row of the parent that has it, if one has.
func TestChildErrors(t *testing.T) {
	for _, c := range []struct {
		parent Field
		rows   []int // of the parent, by value of the child
	}{
		{Field{Kind: KindList, Width: 4}, []int{0, 0, 2, 2, 2, -1}},
		{Field{Kind: KindFixedList, Size: 2}, []int{0, 0, 1, 1, 2, 2}},
		{Field{Kind: KindStruct}, []int{0, 1, 2}},
		{Field{Kind: KindDense}, []int{-1, -1}},
	} {
		k := &Chunk{Layout: &Layout{Fields: []Field{c.parent, {Name: "x"}}}, Arrays: [][]byte{nil, words(4, 0, 2, 2, 5)},
			Shift: []int{0, 0}, nodes: words(8, 3, 0, 6, 0)}
		for at, row := range c.rows {
			if e := k.childError(&wire.Error{Row: at}, 0, 1); e.Row != row || !strings.Contains(e.Detail, `child "x"`) {
				t.Errorf("value %d of a child of kind %v: row %d, %q, want row %d", at, c.parent.Kind, e.Row, e.Detail, row)
			}
		}
		if e := k.childError(&wire.Error{Row: -1}, 0, 1); e.Row != -1 || e.Detail != "" {
			t.Errorf("an error without a row: %+v", e)
		}
	}
}

// TestShortRunsAreLeftOut: eight columns of one type of numbers that follow each other are a run, seven are none.
func TestShortRunsAreLeftOut(t *testing.T) {
	var l Layout
	for i, number := range slices.Concat(slices.Repeat([]Number{Int32}, 7), slices.Repeat([]Number{Int64}, 8),
		slices.Repeat([]Number{Int32}, 9)) {
		l.Fields = append(l.Fields, Field{Type: TypeInt, Kind: KindFixed, Dict: -1, Number: number, Buffer: 2 * i})
		l.Columns = append(l.Columns, i)
	}
	l.findRuns()
	if want := []Run{{First: 7, End: 15, Buffer: 14}, {First: 15, End: 24, Buffer: 30}}; !slices.Equal(l.Runs, want) {
		t.Errorf("runs %+v", l.Runs)
	}
}
