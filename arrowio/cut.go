package arrowio

import "slices"

// indices is a buffer of dictionary indices inside a record.
type indices struct {
	buffer, rows int
	field        *field
	valid        []byte
}

// usage is the entries of one dictionary that rows use: marks where the dictionary is not much larger than what is
// read of it, a list where it is.
type usage struct {
	marks []bool
	list  []int
	spans []span // once they are complete
	base  []int  // where each span begins in the dictionary that is left
	whole bool   // nothing is left out
}

func newUsage(entries, reads int) *usage {
	if entries <= 8*reads+4096 {
		return &usage{marks: make([]bool, entries)}
	}
	return &usage{}
}

// mark adds what a buffer of indices refers to.
func (u *usage) mark(x indices, b []byte) {
	for k := range x.rows {
		if x.valid != nil && x.valid[k>>3]>>(k&7)&1 == 0 {
			continue
		}
		v, _ := readInteger(b, x.field.number, k)
		if u.marks != nil {
			u.marks[v] = true
		} else {
			u.list = append(u.list, int(v))
		}
	}
}

// complete finds the spans of the entries that are used.
func (u *usage) complete(entries int) {
	if u.marks != nil {
		for k, used := range u.marks {
			if used {
				u.spans = join(u.spans, k, k+1)
			}
		}
	} else {
		slices.Sort(u.list)
		for _, k := range slices.Compact(u.list) {
			u.spans = join(u.spans, k, k+1)
		}
	}
	u.marks, u.list = nil, nil
	u.base = bases(u.spans)
	u.whole = count(u.spans) == entries
}

// rewrite returns a buffer of indices into the dictionary that is left. What stands at a null becomes 0.
func (u *usage) rewrite(x indices, b []byte) []byte {
	out := make([]byte, 0, x.rows*x.field.width)
	for k := range x.rows {
		to := 0
		if x.valid == nil || x.valid[k>>3]>>(k&7)&1 == 1 {
			v, _ := readInteger(b, x.field.number, k)
			to = place(u.spans, u.base, int(v))
		}
		for range x.field.width {
			out = append(out, byte(to))
			to >>= 8
		}
	}
	return out
}

// bases are the places at which spans stand once they are gathered.
func bases(spans []span) []int {
	at, total := make([]int, len(spans)), 0
	for k, s := range spans {
		at[k] = total
		total += s.hi - s.lo
	}
	return at
}

// place is where something that stands at at, inside one of the spans, stands once these are gathered.
func place(spans []span, base []int, at int) int {
	k, _ := slices.BinarySearchFunc(spans, at, func(s span, at int) int {
		if s.hi <= at {
			return -1
		}
		if s.lo > at {
			return 1
		}
		return 0
	})
	return base[k] + at - spans[k].lo
}

// union sorts spans and joins those that overlap or touch.
func union(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.lo - b.lo })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

// A bundle is what one output holds: parts of batches, and dictionaries with the entries that their rows use and no
// others.
type bundle struct {
	parts []*part
	dicts []*record // those of the draft
	used  []*usage  // by dictionary
	size  int       // bytes of the data frames
}

// newBundle cuts the dictionaries to what the parts use. The parts, made with their indices noted, are not changed
// before finish.
func newBundle(d *draft, m *Message, parts []*part) (*bundle, *Error) {
	if len(parts) == 0 {
		return &bundle{}, nil // dictionaries are written, and may be there at all, only before a batch
	}
	g := &bundle{parts: parts, dicts: make([]*record, len(d.dicts)), used: make([]*usage, len(m.dicts))}
	for _, p := range parts {
		g.size += p.size()
	}
	for k := len(d.dicts) - 1; k >= 0; k-- { // a dictionary's number is above those inside it
		at := d.dicts[k]
		c := &m.dicts[at]
		reads := 0
		g.each(at, func(r *record, x indices) { reads += x.rows })
		u := newUsage(c.rows, reads)
		g.each(at, func(r *record, x indices) { u.mark(x, r.buffers[x.buffer]) })
		u.complete(c.rows)
		rec := &record{rows: count(u.spans), noting: true}
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
		if u == nil || u.whole {
			continue
		}
		g.each(at, func(r *record, x indices) { r.buffers[x.buffer] = u.rewrite(x, r.buffers[x.buffer]) })
	}
}
