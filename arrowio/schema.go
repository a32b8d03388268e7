package arrowio

import (
	"slices"
	"unicode/utf8"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/wire"
)

// A schema is the parsed first frame of a stream. It is immutable and may be shared by all messages whose schema has
// the same bytes but for the numbers of its dictionaries.
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
	offset int
	id     int64
	dict   int
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
	if e := w.reserve(fields.Len); e != nil {
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
	slices.SortStableFunc(w.ids, func(a, b encoding) int { return a.offset - b.offset })
	for _, x := range w.ids {
		w.s.idAt, w.s.idOf = append(w.s.idAt, x.offset), append(w.s.idOf, x.dict)
	}
	return w.s, nil
}

func (w *schemaWalk) reserve(more int) *Error {
	if more > w.limits.Fields-w.fields {
		return fault(wire.TooManyFields, "the schema has more than %d fields", w.limits.Fields).hint(
			"send the features as one fixed-size list column, or leave columns out")
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
		return v, fault(wire.TooManyFields, "more than %d metadata entries on one schema or field, or %d in all",
			w.limits.Metadata, w.limits.Metadata+w.limits.Fields).
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

// addText bounds the texts by what arrived: more than that can only come from many tables that share one text, and
// would be written out many times.
func (w *schemaWalk) addText(n int) *Error {
	w.text += n
	if w.text > len(w.s.bytes)+64<<10 {
		return fault(wire.TooManyFields, "the schema's names and metadata unfold to more than %d bytes, its own size",
			w.text-n).hint("do not share texts between fields")
	}
	return nil
}

// field parses one Field table and its children into l. values says that the table is read as the value type of its
// dictionary.
func (w *schemaWalk) field(l *layout, t flat.Table, depth int, values bool) *Error {
	if w.fields++; w.fields > w.limits.Fields {
		return w.reserve(0x7fffffff)
	}
	if depth > w.limits.Depth {
		return fault(wire.TooManyFields, "a column is nested more than %d deep", w.limits.Depth).hint(
			"flatten it or leave it out")
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
	if e := w.reserve(children.Len); e != nil {
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
		return fault(wire.Malformed, "dictionary %d is used with two value types", id).hint(
			"give each dictionary its own number")
	}
	return nil
}

// sameAs reports whether meta is this schema but for the numbers of its dictionaries, and returns those in normalised
// order. Some writers number the dictionaries afresh in every message.
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

// numbers reads the dictionaries' numbers in normalised order. ok is false where two that are one dictionary in s
// differ, or the reverse.
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
