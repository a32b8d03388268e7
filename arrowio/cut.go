package arrowio

// indices is a buffer of dictionary indices inside a record.
type indices struct {
	buffer, rows int
	field        *field
	valid        []byte
}

// mark adds the entries that a buffer of indices refers to.
func (x indices) mark(g *gathering, b []byte) {
	for k := range x.rows {
		if x.valid == nil || x.valid[k>>3]>>(k&7)&1 == 1 {
			v, _ := readInteger(b, x.field.number, k)
			g.add(int(v), int(v)+1)
		}
	}
}

// rewrite returns a buffer of indices into the entries that are left. What stands at a null becomes 0.
func (x indices) rewrite(g *gathering, b []byte) []byte {
	out := make([]byte, 0, x.rows*x.field.width)
	for k := range x.rows {
		to := 0
		if x.valid == nil || x.valid[k>>3]>>(k&7)&1 == 1 {
			v, _ := readInteger(b, x.field.number, k)
			to = g.place(int(v))
		}
		for range x.field.width {
			out = append(out, byte(to))
			to >>= 8
		}
	}
	return out
}

// A bundle is what one output holds: parts of batches, and dictionaries with the entries that their rows use and no
// others.
type bundle struct {
	parts []*part
	dicts []*record    // those of the draft
	used  []*gathering // of entries, by dictionary
	size  int          // bytes of the data frames
}

// newBundle cuts the dictionaries to what the parts use. The parts, made with their indices noted, are not changed
// before finish.
func newBundle(d *draft, m *Message, parts []*part) (*bundle, *Error) {
	if len(parts) == 0 {
		return &bundle{}, nil // dictionaries are written, and may be there at all, only before a batch
	}
	g := &bundle{parts: parts, dicts: make([]*record, len(d.dicts)), used: make([]*gathering, len(m.dicts))}
	for _, p := range parts {
		g.size += p.size()
	}
	for k := len(d.dicts) - 1; k >= 0; k-- { // a dictionary's number is above those inside it
		at := d.dicts[k]
		c := &m.dicts[at]
		reads := 0
		g.each(at, func(r *record, x indices) { reads += x.rows })
		u := newGathering(c.rows, reads)
		g.each(at, func(r *record, x indices) { x.mark(u, r.buffers[x.buffer]) })
		u.complete()
		rec := &record{rows: u.total, noting: true}
		if e := rec.take(c, 0, u.spans); e != nil {
			return nil, e.in(c.layout.fields[0].name)
		}
		g.used[at], g.dicts[k] = u, rec
		g.size += rec.size()
	}
	return g, nil
}

// each calls f for the indices into one dictionary.
func (g *bundle) each(dict int, f func(*record, indices)) {
	visit := func(r *record) {
		for _, x := range r.indices {
			if x.field.dict == dict {
				f(r, x)
			}
		}
	}
	for _, p := range g.parts {
		visit(&p.record)
	}
	for _, r := range g.dicts {
		if r != nil {
			visit(r)
		}
	}
}

// finish makes the indices those of the dictionaries that are left.
func (g *bundle) finish() {
	for at, u := range g.used {
		if u == nil || u.total == u.domain {
			continue
		}
		g.each(at, func(r *record, x indices) { r.buffers[x.buffer] = x.rewrite(u, r.buffers[x.buffer]) })
	}
}
