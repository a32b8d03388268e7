package ipc

import (
	"slices"
	"unicode/utf8"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// A Schema is the parsed first frame of a stream. It is immutable, and shared by messages whose schemas differ only in
// the ids of their dictionaries.
type Schema struct {
	Bytes   []byte // metadata of the frame, a copy
	Layout  Layout
	Dicts   []Layout    // value types of the dictionaries, by normalised id
	IDAt    []int       // positions of the dictionary ids in Bytes, ascending; 0 = absent, which means id 0
	IDOf    []int       // normalised id for each of them
	Pairs   flat.Vector // the schema's own metadata, a view on Bytes
	version int
}

// schemaWalk has the running totals of a schema. Tables may be shared or cyclic, so every visit counts against the
// limits.
type schemaWalk struct {
	s      *Schema
	limits Limits
	fields int
	pairs  int
	text   int
	ids    []encoding
}

type encoding struct {
	offset int
	id     int64
	dict   int
}

// ParseSchema parses a schema frame. The schema has its own memory.
func ParseSchema(frame *Frame, l Limits) *Schema {
	if len(frame.Body) != 0 {
		panic(Malformed("the schema has a body of %d bytes", len(frame.Body)))
	}
	buf := slices.Clone(frame.Meta)
	f, _ := OpenFrame(buf)
	w := schemaWalk{s: &Schema{Bytes: buf, version: f.version}, limits: l}
	if f.Head.Integer(0, 2, 0, "the byte order") != 0 {
		panic(wire.Errorf(wire.Unsupported, "the data is big-endian").WithHint("write little-endian Arrow"))
	}
	fields := f.Head.Vector(1, 4, "the list of fields")
	w.s.Pairs = w.metadata(f.Head, 2)
	w.reserve(fields.Len)
	for i := 0; i < fields.Len; i++ {
		w.s.Layout.Columns = append(w.s.Layout.Columns, len(w.s.Layout.Fields))
		w.field(&w.s.Layout, fields.Table(i, "a field"), 1, false)
	}
	w.s.Layout.findRuns()
	slices.SortStableFunc(w.ids, func(a, b encoding) int { return a.offset - b.offset })
	for _, x := range w.ids {
		w.s.IDAt, w.s.IDOf = append(w.s.IDAt, x.offset), append(w.s.IDOf, x.dict)
	}
	return w.s
}

func (w *schemaWalk) reserve(more int) {
	if more > w.limits.Fields-w.fields {
		panic(wire.Errorf(wire.TooManyFields, "the schema has more than %d fields", w.limits.Fields).WithHint(
			"send the features as one fixed-size list column, or leave columns out"))
	}
}

// metadata checks and counts the key/value list of slot i.
func (w *schemaWalk) metadata(t flat.Table, i int) flat.Vector {
	v := t.Vector(i, 4, "the metadata list")
	if v.Len > w.limits.Metadata || w.pairs+v.Len > w.limits.Metadata+w.limits.Fields {
		panic(wire.Errorf(wire.TooManyFields, "more than %d metadata entries on one schema or field, or %d in all",
			w.limits.Metadata, w.limits.Metadata+w.limits.Fields).WithHint("send less metadata"))
	}
	w.pairs += v.Len
	for j := 0; j < v.Len; j++ {
		kv := v.Table(j, "a metadata entry")
		for slot := 0; slot < 2; slot++ {
			b, ok := kv.Text(slot, "a metadata text")
			if !ok {
				panic(wire.Errorf(wire.Malformed, "a metadata entry without key or value").WithHint(
					"give each entry both, empty if need be"))
			}
			w.addText(len(b))
		}
	}
	return v
}

// MetadataSize checks the metadata of a frame and returns its maximum size in an output.
func (f *Frame) MetadataSize(l Limits) int {
	w := schemaWalk{s: &Schema{Bytes: f.Meta}, limits: l}
	return w.text + 64*w.metadata(f.Message, 4).Len
}

// addText limits texts to the received size. More is possible only if many tables share one text, which would be
// written many times.
func (w *schemaWalk) addText(n int) {
	w.text += n
	if w.text > len(w.s.Bytes)+64<<10 {
		panic(wire.Errorf(wire.TooManyFields, "the schema's names and metadata expand to more than %d bytes, its own size",
			w.text-n).WithHint("do not share texts between fields"))
	}
}

// field parses a Field table and its children into l. With values it reads the table as the value type of its
// dictionary.
func (w *schemaWalk) field(l *Layout, t flat.Table, depth int, values bool) {
	if w.fields++; w.fields > w.limits.Fields {
		w.reserve(0x7fffffff)
	}
	if depth > w.limits.Depth {
		panic(wire.Errorf(wire.TooManyFields, "a column is nested more than %d deep", w.limits.Depth).WithHint(
			"flatten it or leave it out"))
	}
	name, _ := t.Text(0, "a field's name")
	w.addText(len(name))
	if !utf8.Valid(name) {
		panic(wire.Errorf(wire.Malformed, "a field's name is not UTF-8").WithHint("name columns in UTF-8"))
	}
	defer Annotate(func(e *wire.Error) { e.In(string(name)) })
	at := len(l.Fields)
	l.Fields = append(l.Fields, Field{Name: string(name), Table: t.Pos, Dict: -1, Buffer: l.Buffers, Views: l.Views})
	dictionary, encoded := t.Table(4, "a dictionary encoding")
	if encoded && !values {
		f := Field{Name: string(name), Table: t.Pos, Buffer: l.Buffers, Views: l.Views}
		w.dictionary(&f, t, dictionary, depth)
		l.Buffers += ownBuffers[KindFixed]
		f.End = at + 1
		l.Fields[at] = f
		w.metadata(t, 6)
		return
	}
	if !values {
		w.metadata(t, 6)
	}
	f := l.Fields[at]
	w.typed(&f, t)
	l.Buffers += ownBuffers[f.Kind]
	if f.Kind == KindView {
		l.Views++
	}
	children := t.Vector(5, 4, "the list of children")
	childCount(&f, children.Len)
	w.reserve(children.Len)
	for i := 0; i < children.Len; i++ {
		w.field(l, children.Table(i, "a child field"), depth+1, false)
	}
	f.End = len(l.Fields)
	l.Fields[at] = f
	l.childTypes(at)
	if f.Type == TypeMap && children.Table(0, "a map's entries").Integer(1, 1, 0, "a field's nullability") != 0 {
		panic(wire.Errorf(wire.Malformed, "a map whose entries may be null").WithHint("write with an Arrow library"))
	}
}

// dictionary parses the dictionary encoding of a field and its value type. Fields with the same id share both.
func (w *schemaWalk) dictionary(f *Field, t, d flat.Table, depth int) {
	at := d.Slot(0, 8, "a dictionary's number")
	id := d.Integer(0, 8, 0, "a dictionary's number")
	index, ok := d.Table(1, "a dictionary's index type")
	f.Kind, f.Number, f.Width = KindFixed, Int32, 4
	if ok {
		integerType(f, index)
	}
	var values Layout
	values.Columns = []int{0}
	w.field(&values, t, depth+1, true)
	f.Type = values.Fields[0].Type
	f.Dict = len(w.s.Dicts)
	for _, x := range w.ids {
		if x.id == id {
			f.Dict = x.dict
		}
	}
	w.ids = append(w.ids, encoding{at, id, f.Dict})
	if f.Dict == len(w.s.Dicts) {
		w.s.Dicts = append(w.s.Dicts, values)
	} else if !w.s.Dicts[f.Dict].same(&values) {
		panic(wire.Errorf(wire.Malformed, "dictionary %d is used with two value types", id).WithHint(
			"give each dictionary its own number"))
	}
}

// SameAs reports whether meta is this schema apart from dictionary ids, and returns its ids in normalised order. Some
// writers number the dictionaries differently in every message.
func (s *Schema) SameAs(meta []byte) (ids []int64, ok bool) {
	if len(meta) != len(s.Bytes) {
		return nil, false
	}
	from := 0
	for _, at := range s.IDAt {
		if at == 0 {
			continue
		}
		if from < at && string(meta[from:at]) != string(s.Bytes[from:at]) {
			return nil, false
		}
		from = max(from, at+8)
	}
	if string(meta[from:]) != string(s.Bytes[from:]) {
		return nil, false
	}
	return s.DictionaryIDs(meta)
}

// DictionaryIDs returns the dictionary ids in normalised order. ok is false if fields that share a dictionary in s have
// different ids, or the reverse.
func (s *Schema) DictionaryIDs(meta []byte) (ids []int64, ok bool) {
	if len(s.Dicts) == 0 {
		return nil, true
	}
	ids = make([]int64, len(s.Dicts))
	known := make([]bool, len(s.Dicts))
	back := make(map[int64]int, len(s.Dicts))
	for k, at := range s.IDAt {
		var id int64
		if at != 0 {
			id = int64(le.Uint64(meta[at:]))
		}
		d := s.IDOf[k]
		if owner, seen := back[id]; seen && owner != d || known[d] && ids[d] != id {
			return nil, false
		}
		ids[d], known[d], back[id] = id, true, d
	}
	return ids, true
}

// Size estimates the memory of a schema and its plan, rounded up generously.
func (s *Schema) Size() int {
	n := len(s.Layout.Fields)
	for _, d := range s.Dicts {
		n += len(d.Fields)
	}
	return len(s.Bytes) + 512*n
}

// Needed returns the dictionaries that fields use, directly or through another dictionary. A dictionary comes after
// those that it uses.
func (s *Schema) Needed(fields []int) (dicts []int) {
	if len(s.Dicts) == 0 {
		return nil
	}
	need := make([]bool, len(s.Dicts))
	mark := func(fields []Field) {
		for _, f := range fields {
			if f.Dict >= 0 {
				need[f.Dict] = true
			}
		}
	}
	for _, i := range fields {
		mark(s.Layout.Fields[i:s.Layout.Fields[i].End])
	}
	for k := len(need) - 1; k >= 0; k-- {
		if need[k] {
			mark(s.Dicts[k].Fields)
		}
	}
	for k, n := range need {
		if n {
			dicts = append(dicts, k)
		}
	}
	return dicts
}
