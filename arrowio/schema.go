package arrowio

import (
	"slices"
	"unicode/utf8"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// Type numbers of the Arrow format (format/Schema.fbs).
const (
	typeNull = iota + 1
	typeInt
	typeFloat
	typeBinary
	typeUtf8
	typeBool
	typeDecimal
	typeDate
	typeTime
	typeTimestamp
	typeInterval
	typeList
	typeStruct
	typeUnion
	typeFixedBinary
	typeFixedList
	typeMap
	typeDuration
	typeLargeBinary
	typeLargeUtf8
	typeLargeList
	typeRunEnd
	typeBinaryView
	typeUtf8View
	typeListView
	typeLargeListView
)

// typeName is what users call a type, for errors.
func typeName(typ int) string {
	names := [...]string{"no type", "null", "integer", "floating point", "binary", "string", "boolean", "decimal", "date", "time", "timestamp", "interval",
		"list", "struct", "union", "fixed-size binary", "fixed-size list", "map", "duration", "large binary", "large string", "large list",
		"run-end encoded", "binary view", "string view", "list view", "large list view"}
	if typ < 0 || typ >= len(names) {
		return "unknown type"
	}
	return names[typ]
}

// describe names a field's type, with what is in it.
func (l *layout) describe(i int) string {
	f := &l.fields[i]
	switch {
	case f.dict >= 0:
		return "dictionary of " + typeName(f.typ)
	case f.typ == typeList || f.typ == typeLargeList || f.typ == typeFixedList:
		return typeName(f.typ) + " of " + l.describe(i+1)
	}
	return typeName(f.typ)
}

// A kind is the physical layout of a column: which buffers it has and what they mean (Arrow Columnar Format, "Physical Memory Layout").
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindFixed    // width bytes a value
	kindBinary   // offsets of width bytes, data
	kindView     // 16-byte views, any number of data buffers
	kindList     // offsets of width bytes, one child
	kindListView // offsets and sizes of width bytes, one child
	kindFixedList
	kindStruct
	kindSparse
	kindDense
	kindRunEnd
)

// ownBuffers is the number of buffers of each kind, the data buffers of views not counted.
var ownBuffers = [...]int{kindNull: 0, kindBool: 2, kindFixed: 2, kindBinary: 3, kindView: 2, kindList: 2, kindListView: 3, kindFixedList: 1,
	kindStruct: 1, kindSparse: 1, kindDense: 2, kindRunEnd: 0}

// A number says how the values of a fixed-width column read as numbers.
type number uint8

const (
	notNumber number = iota
	int8s
	int16s
	int32s
	int64s
	uint8s
	uint16s
	uint32s
	uint64s
	float32s
	float64s
)

// A field is one column or one child of a column. A dictionary-encoded field is the column of its indices.
type field struct {
	name   string
	table  int // position of its Field table in the schema's bytes
	typ    int // of the format, of the values where dictionary-encoded
	kind   kind
	number number // of the indices where dictionary-encoded
	width  int    // bytes of a value or of an offset
	size   int    // elements of a fixed-size list
	ids    []byte // type ids of a union, one a child
	dict   int    // index into schema.dicts, -1 when not dictionary-encoded
	end    int    // index after its last descendant
	buffer int    // index of its first buffer, not counting the data buffers of views before it
	views  int    // number of view columns before it
}

// A layout is the columns of a batch with their descendants, depth first: a field's index is its node's index in the batch.
type layout struct {
	fields  []field
	columns []int // the top-level fields
	buffers int   // without the data buffers of views
	views   int
}

// A schema is the parsed first frame of a stream. It is immutable and may be shared by all messages whose schema has the same bytes but for the
// numbers of its dictionaries.
type schema struct {
	bytes   []byte // of the frame's metadata, a copy
	layout  layout
	dicts   []layout    // value types of the dictionaries, by normalised number
	idAt    []int       // where in bytes a dictionary's number stands; ascending; 0 = absent, which means 0
	idOf    []int       // the normalised number of each
	pairs   flat.Vector // the schema's own metadata, on bytes
	version int
}

// schemaWalk carries the running totals: sharing and cycles cost what they unfold to, so counting bounds them.
type schemaWalk struct {
	s      *schema
	limits Limits
	fields int
	pairs  int
	text   int
	ids    []encoding
}

type encoding struct {
	at   int
	id   int64
	dict int
}

func parseSchema(f frame, l Limits) (*schema, *Error) {
	if len(f.body) != 0 {
		return nil, fault(wire.Malformed, "the schema has a body of %d bytes", len(f.body)).hint(streamHint)
	}
	buf := slices.Clone(f.meta)
	f.meta = buf
	root, err := flat.Root(buf, "the message table")
	if err != nil {
		return nil, broken(err)
	}
	f.message = root
	_, e := f.open()
	if e != nil {
		return nil, e
	}
	w := schemaWalk{s: &schema{bytes: buf, version: f.version}, limits: l}
	big, err := f.head.Integer(0, 2, 0, "the byte order")
	if err != nil {
		return nil, broken(err)
	}
	if big != 0 {
		return nil, fault(wire.Unsupported, "the data is big-endian").hint("write little-endian Arrow")
	}
	fields, err := f.head.Vector(1, 4, "the list of fields")
	if err != nil {
		return nil, broken(err)
	}
	if w.s.pairs, e = w.metadata(f.head, 2); e != nil {
		return nil, e
	}
	if e := w.room(fields.Len); e != nil {
		return nil, e
	}
	for i := 0; i < fields.Len; i++ {
		t, err := fields.Table(i, "a field")
		if err != nil {
			return nil, broken(err)
		}
		w.s.layout.columns = append(w.s.layout.columns, len(w.s.layout.fields))
		if e := w.field(&w.s.layout, t, 1, false); e != nil {
			return nil, e
		}
	}
	slices.SortStableFunc(w.ids, func(a, b encoding) int { return a.at - b.at })
	for _, x := range w.ids {
		w.s.idAt, w.s.idOf = append(w.s.idAt, x.at), append(w.s.idOf, x.dict)
	}
	return w.s, nil
}

func (w *schemaWalk) room(more int) *Error {
	if more > w.limits.Fields-w.fields {
		return fault(wire.TooManyFields, "the schema has more than %d fields", w.limits.Fields).hint("send the features as one fixed-size list column, or leave columns out")
	}
	return nil
}

// metadata checks the key/value list of slot i and counts it.
func (w *schemaWalk) metadata(t flat.Table, i int) (flat.Vector, *Error) {
	v, err := t.Vector(i, 4, "the metadata list")
	if err != nil {
		return v, broken(err)
	}
	if v.Len > w.limits.Metadata || w.pairs+v.Len > w.limits.Metadata+w.limits.Fields {
		return v, fault(wire.TooManyFields, "more than %d metadata entries on one schema or field, or %d in all", w.limits.Metadata, w.limits.Metadata+w.limits.Fields).
			hint("send less metadata")
	}
	w.pairs += v.Len
	for j := 0; j < v.Len; j++ {
		kv, err := v.Table(j, "a metadata entry")
		if err != nil {
			return v, broken(err)
		}
		for slot := 0; slot < 2; slot++ {
			b, _, err := kv.Text(slot, "a metadata text")
			if err != nil {
				return v, broken(err)
			}
			if e := w.addText(len(b)); e != nil {
				return v, e
			}
		}
	}
	return v, nil
}

// addText bounds the texts by what arrived: more than that can only come from many tables that share one text, and would be written out many times.
func (w *schemaWalk) addText(n int) *Error {
	w.text += n
	if w.text > len(w.s.bytes)+64<<10 {
		return fault(wire.TooManyFields, "the schema's names and metadata unfold to more than %d bytes, its own size", w.text-n).hint("do not share texts between fields")
	}
	return nil
}

// field parses one Field table and its children into l. values says that the table is read as the value type of its dictionary.
func (w *schemaWalk) field(l *layout, t flat.Table, depth int, values bool) *Error {
	if w.fields++; w.fields > w.limits.Fields {
		return w.room(0x7fffffff)
	}
	if depth > w.limits.Depth {
		return fault(wire.TooManyFields, "a column is nested more than %d deep", w.limits.Depth).hint("flatten it or leave it out")
	}
	name, _, err := t.Text(0, "a field's name")
	if err != nil {
		return broken(err)
	}
	if e := w.addText(len(name)); e != nil {
		return e
	}
	if !utf8.Valid(name) {
		return fault(wire.Malformed, "a field's name is not UTF-8").hint("name columns in UTF-8")
	}
	at := len(l.fields)
	l.fields = append(l.fields, field{name: string(name), table: t.Pos, dict: -1, buffer: l.buffers, views: l.views})
	dictionary, encoded, err := t.Table(4, "a dictionary encoding")
	if err != nil {
		return broken(err).in(string(name))
	}
	if encoded && !values {
		f := field{name: string(name), table: t.Pos, buffer: l.buffers, views: l.views}
		if e := w.dictionary(&f, t, dictionary, depth); e != nil {
			return e.in(string(name))
		}
		l.buffers += ownBuffers[kindFixed]
		f.end = at + 1
		l.fields[at] = f
		_, e := w.metadata(t, 6)
		return e.in(string(name))
	}
	if !values {
		if _, e := w.metadata(t, 6); e != nil {
			return e.in(string(name))
		}
	}
	f := l.fields[at]
	if e := w.typed(&f, t); e != nil {
		return e.in(string(name))
	}
	l.buffers += ownBuffers[f.kind]
	if f.kind == kindView {
		l.views++
	}
	children, err := t.Vector(5, 4, "the list of children")
	if err != nil {
		return broken(err).in(string(name))
	}
	if e := childCount(&f, children.Len); e != nil {
		return e.in(string(name))
	}
	if e := w.room(children.Len); e != nil {
		return e
	}
	for i := 0; i < children.Len; i++ {
		c, err := children.Table(i, "a child field")
		if err != nil {
			return broken(err).in(string(name))
		}
		if e := w.field(l, c, depth+1, false); e != nil {
			return e.in(string(name))
		}
	}
	f.end = len(l.fields)
	l.fields[at] = f
	return l.childTypes(at).in(f.name)
}

// dictionary parses the encoding of a field and its value type, which two fields with the same number share.
func (w *schemaWalk) dictionary(f *field, t, d flat.Table, depth int) *Error {
	at, err := d.Slot(0, 8, "a dictionary's number")
	if err != nil {
		return broken(err)
	}
	id, err := d.Integer(0, 8, 0, "a dictionary's number")
	if err != nil {
		return broken(err)
	}
	index, ok, err := d.Table(1, "a dictionary's index type")
	if err != nil {
		return broken(err)
	}
	f.kind, f.number, f.width = kindFixed, int32s, 4
	if ok {
		if e := integerType(f, index); e != nil {
			return e
		}
	}
	var values layout
	values.columns = []int{0}
	if e := w.field(&values, t, depth+1, true); e != nil {
		return e
	}
	f.typ = values.fields[0].typ
	f.dict = len(w.s.dicts)
	for _, x := range w.ids {
		if x.id == id {
			f.dict = x.dict
		}
	}
	w.ids = append(w.ids, encoding{at, id, f.dict})
	if f.dict == len(w.s.dicts) {
		w.s.dicts = append(w.s.dicts, values)
	} else if !w.s.dicts[f.dict].same(&values) {
		return fault(wire.Malformed, "dictionary %d is used with two value types", id).hint("give each dictionary its own number")
	}
	return nil
}

// same reports whether two layouts hold values in the same way.
func (l *layout) same(m *layout) bool {
	return slices.EqualFunc(l.fields, m.fields, func(a, b field) bool {
		return a.typ == b.typ && a.kind == b.kind && a.number == b.number && a.width == b.width && a.size == b.size &&
			a.dict == b.dict && a.end == b.end && slices.Equal(a.ids, b.ids)
	})
}

func integerType(f *field, t flat.Table) *Error {
	bits, err := t.Integer(0, 4, 0, "an integer's width")
	if err != nil {
		return broken(err)
	}
	signed, err := t.Integer(1, 1, 0, "an integer's sign")
	if err != nil {
		return broken(err)
	}
	of := map[int64][2]number{8: {uint8s, int8s}, 16: {uint16s, int16s}, 32: {uint32s, int32s}, 64: {uint64s, int64s}}
	pair, ok := of[bits]
	if !ok {
		return fault(wire.Malformed, "an integer of %d bits", bits).hint("use 8, 16, 32 or 64")
	}
	f.kind, f.width, f.number = kindFixed, int(bits/8), pair[0]
	if signed != 0 {
		f.number = pair[1]
	}
	return nil
}

// unit reads the 16-bit enumeration of slot i and looks its width up.
func unit(t flat.Table, i int, missing int64, widths ...int) (int, *Error) {
	v, err := t.Integer(i, 2, missing, "a type's unit")
	if err != nil {
		return 0, broken(err)
	}
	if v < 0 || int(v) >= len(widths) {
		return 0, fault(wire.Malformed, "a type with unit or precision %d", v).hint("write with an Arrow library of this format version")
	}
	return widths[v], nil
}

// typed reads the type table of a field into its layout.
func (w *schemaWalk) typed(f *field, t flat.Table) *Error {
	typ, err := t.Integer(2, 1, 0, "a field's type")
	if err != nil {
		return broken(err)
	}
	tt, ok, err := t.Table(3, "a field's type")
	if err != nil {
		return broken(err)
	}
	if !ok {
		return fault(wire.Malformed, "a field without type").hint("write with an Arrow library")
	}
	f.typ = int(typ)
	var e *Error
	switch f.typ {
	case typeNull:
		f.kind = kindNull
	case typeBool:
		f.kind = kindBool
	case typeInt:
		return integerType(f, tt)
	case typeFloat:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 0, 2, 4, 8)
		f.number = map[int]number{4: float32s, 8: float64s}[f.width]
	case typeDecimal:
		f.kind = kindFixed
		f.width, e = decimalWidth(tt)
	case typeDate:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 1, 4, 8)
	case typeTime:
		f.kind = kindFixed
		if f.width, e = unit(tt, 0, 1, 4, 4, 8, 8); e != nil {
			break
		}
		v, err := tt.Integer(1, 4, 32, "a time's width")
		if err != nil {
			return broken(err)
		}
		if int(v) != 8*f.width {
			return fault(wire.Malformed, "a time of %d bits, and its unit has %d", v, 8*f.width).hint("use 32 bits for seconds and milliseconds, 64 for finer")
		}
	case typeTimestamp:
		f.kind = kindFixed
		if f.width, e = unit(tt, 0, 0, 8, 8, 8, 8); e != nil {
			break
		}
		zone, _, err := tt.Text(1, "a time zone")
		if err != nil {
			return broken(err)
		}
		return w.addText(len(zone))
	case typeDuration:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 1, 8, 8, 8, 8)
	case typeInterval:
		f.kind = kindFixed
		f.width, e = unit(tt, 0, 0, 4, 8, 16)
	case typeFixedBinary:
		f.kind = kindFixed
		v, err := tt.Integer(0, 4, 0, "a width")
		if err != nil {
			return broken(err)
		}
		if v < 0 {
			return fault(wire.Malformed, "fixed-size binary of %d bytes", v).hint("use a width of 0 or more")
		}
		f.width = int(v)
	case typeBinary, typeUtf8:
		f.kind, f.width = kindBinary, 4
	case typeLargeBinary, typeLargeUtf8:
		f.kind, f.width = kindBinary, 8
	case typeBinaryView, typeUtf8View:
		f.kind, f.width = kindView, 16
	case typeList, typeMap:
		f.kind, f.width = kindList, 4
	case typeLargeList:
		f.kind, f.width = kindList, 8
	case typeListView:
		f.kind, f.width = kindListView, 4
	case typeLargeListView:
		f.kind, f.width = kindListView, 8
	case typeFixedList:
		f.kind = kindFixedList
		v, err := tt.Integer(0, 4, 0, "a list's size")
		if err != nil {
			return broken(err)
		}
		if v < 0 {
			return fault(wire.Malformed, "a fixed-size list of %d elements", v).hint("use a size of 0 or more")
		}
		f.size = int(v)
	case typeStruct:
		f.kind = kindStruct
	case typeUnion:
		return w.union(f, tt)
	case typeRunEnd:
		f.kind = kindRunEnd
	default:
		return fault(wire.Unsupported, "Arrow type number %d", typ).hint("cast the column to a type of Arrow format 1.4")
	}
	return e
}

// decimalWidth checks a decimal's parameters: who prints a value with a scale of 2^31 runs out of memory.
func decimalWidth(t flat.Table) (int, *Error) {
	var v [3]int64
	for i, missing := range [3]int64{0, 0, 128} {
		n, err := t.Integer(i, 4, missing, "a decimal's parameter")
		if err != nil {
			return 0, broken(err)
		}
		v[i] = n
	}
	digits := map[int64]int64{32: 9, 64: 18, 128: 38, 256: 76}[v[2]]
	if v[0] < 1 || v[0] > digits || v[1] < -digits || v[1] > digits {
		return 0, fault(wire.Malformed, "a decimal of %d bits with %d digits and scale %d", v[2], v[0], v[1]).hint("use at most 38 digits in 128 bits, 76 in 256, and a scale in that range")
	}
	return int(v[2] / 8), nil
}

func (w *schemaWalk) union(f *field, t flat.Table) *Error {
	if w.s.version == versionV4 {
		return fault(wire.Unsupported, "a union in metadata version 4, which lays it out in another way").hint("write metadata version 5")
	}
	mode, err := t.Integer(0, 2, 0, "a union's mode")
	if err != nil {
		return broken(err)
	}
	if mode != 0 && mode != 1 {
		return fault(wire.Malformed, "a union of mode %d", mode).hint("use sparse or dense")
	}
	f.kind = kindSparse
	if mode == 1 {
		f.kind = kindDense
	}
	ids, err := t.Vector(1, 4, "a union's type ids")
	if err != nil {
		return broken(err)
	}
	if ids.Len > 128 {
		return fault(wire.Malformed, "a union with %d type ids", ids.Len).hint("use at most 128")
	}
	var seen [128]bool
	for i := 0; i < ids.Len; i++ {
		id := int32(le.Uint32(ids.Buf[ids.Pos+4*i:]))
		if id < 0 || id > 127 || seen[id] {
			return fault(wire.Malformed, "a union with type id %d, negative, over 127 or twice", id).hint("use each of 0 to 127 at most once")
		}
		seen[id] = true
		f.ids = append(f.ids, byte(id))
	}
	return nil
}

// childCount checks the number of children that a kind needs.
func childCount(f *field, n int) *Error {
	want := 0
	switch f.kind {
	case kindList, kindListView, kindFixedList:
		want = 1
	case kindRunEnd:
		want = 2
	case kindStruct:
		want = n
	case kindSparse, kindDense:
		if f.ids == nil && n <= 128 {
			for i := 0; i < n; i++ {
				f.ids = append(f.ids, byte(i)) // absent ids number the children
			}
		}
		want = len(f.ids)
	}
	if n != want {
		return fault(wire.Malformed, "a %s field with %d children, not %d", typeName(f.typ), n, want).hint("write with an Arrow library")
	}
	return nil
}

// childTypes checks what a kind asks of its children's types.
func (l *layout) childTypes(at int) *Error {
	f := &l.fields[at]
	switch {
	case f.typ == typeMap && f.dict < 0:
		entries := &l.fields[at+1]
		if entries.kind != kindStruct || entries.end == at+2 || l.fields[at+2].end == entries.end || l.fields[l.fields[at+2].end].end != entries.end {
			return fault(wire.Malformed, "a map whose entries are no struct of key and value").hint("write with an Arrow library")
		}
	case f.kind == kindRunEnd:
		ends := &l.fields[at+1]
		if n := ends.number; n != int16s && n != int32s && n != int64s || ends.dict >= 0 {
			return fault(wire.Malformed, "run ends that are no signed integers of 16, 32 or 64 bits").hint("write with an Arrow library")
		}
	}
	return nil
}

// sameAs reports whether meta is this schema but for the numbers of its dictionaries, and returns those in normalised order. Some writers number
// the dictionaries afresh in every message.
func (s *schema) sameAs(meta []byte) (ids []int64, ok bool) {
	if len(meta) != len(s.bytes) {
		return nil, false
	}
	from := 0
	for _, at := range s.idAt {
		if at == 0 {
			continue
		}
		if from < at && string(meta[from:at]) != string(s.bytes[from:at]) {
			return nil, false
		}
		from = max(from, at+8)
	}
	if string(meta[from:]) != string(s.bytes[from:]) {
		return nil, false
	}
	return s.numbers(meta)
}

// numbers reads the dictionaries' numbers in normalised order. ok is false where two that are one dictionary in s differ, or the reverse.
func (s *schema) numbers(meta []byte) (ids []int64, ok bool) {
	if len(s.dicts) == 0 {
		return nil, true
	}
	ids = make([]int64, len(s.dicts))
	known := make([]bool, len(s.dicts))
	back := make(map[int64]int, len(s.dicts))
	for k, at := range s.idAt {
		var id int64
		if at != 0 {
			id = int64(le.Uint64(meta[at:]))
		}
		d := s.idOf[k]
		if owner, seen := back[id]; seen && owner != d || known[d] && ids[d] != id {
			return nil, false
		}
		ids[d], known[d], back[id] = id, true, d
	}
	return ids, true
}
