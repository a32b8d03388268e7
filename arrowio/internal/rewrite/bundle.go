package rewrite

import (
	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// indices is a buffer of dictionary indices inside a record.
type indices struct {
	buffer, rows int
	field        *ipc.Field
	valid        []byte
}

// mark adds the entries that a buffer of indices refers to.
func (x indices) mark(g *gathering, b []byte) {
	for k := range x.rows {
		if x.valid == nil || x.valid[k>>3]>>(k&7)&1 == 1 {
			v, _ := ipc.ReadInteger(b, x.field.Number, k)
			g.add(int(v), int(v)+1)
		}
	}
}

// rewrite returns a buffer of indices into the entries that are left. What stands at a null becomes 0.
func (x indices) rewrite(g *gathering, b []byte) []byte {
	out := make([]byte, 0, x.rows*x.field.Width)
	for k := range x.rows {
		to := 0
		if x.valid == nil || x.valid[k>>3]>>(k&7)&1 == 1 {
			v, _ := ipc.ReadInteger(b, x.field.Number, k)
			to = g.place(int(v))
		}
		for range x.field.Width {
			out = append(out, byte(to))
			to >>= 8
		}
	}
	return out
}

// A Bundle is what one output holds: parts of batches, and dictionaries with the entries that their rows use and no
// others.
type Bundle struct {
	Parts []*Part
	dicts []*Record    // those of the draft
	used  []*gathering // of entries, by dictionary
	Size  int          // bytes of the data frames
}

// Cut is the message of these parts, with the dictionaries cut to what the parts use. The parts, made with their indices noted, are not changed
// before Finish.
func (f *Form) Cut(parts []*Part, dicts []ipc.Chunk) (*Bundle, *wire.Error) {
	if len(parts) == 0 {
		return &Bundle{}, nil // dictionaries are written, and may be there at all, only before a batch
	}
	g := &Bundle{Parts: parts, dicts: make([]*Record, len(f.dicts)), used: make([]*gathering, len(dicts))}
	for _, p := range parts {
		g.Size += p.size()
	}
	for k := len(f.dicts) - 1; k >= 0; k-- { // a dictionary's number is above those inside it
		at := f.dicts[k]
		c := &dicts[at]
		reads := 0
		g.each(at, func(r *Record, x indices) { reads += x.rows })
		u := newGathering(c.Rows, reads)
		g.each(at, func(r *Record, x indices) { x.mark(u, r.Buffers[x.buffer]) })
		u.complete()
		rec := &Record{Rows: u.total, noting: true}
		if e := rec.take(c, 0, u.spans); e != nil {
			return nil, e.In(c.Layout.Fields[0].Name)
		}
		g.used[at], g.dicts[k] = u, rec
		g.Size += rec.size()
	}
	return g, nil
}

// each calls f for the indices into one dictionary.
func (g *Bundle) each(dict int, f func(*Record, indices)) {
	visit := func(r *Record) {
		for _, x := range r.indices {
			if x.field.Dict == dict {
				f(r, x)
			}
		}
	}
	for _, p := range g.Parts {
		visit(&p.Record)
	}
	for _, r := range g.dicts {
		if r != nil {
			visit(r)
		}
	}
}

// Finish makes the indices those of the dictionaries that are left.
func (g *Bundle) Finish() {
	for at, u := range g.used {
		if u == nil || u.total == u.domain {
			continue
		}
		g.each(at, func(r *Record, x indices) { r.Buffers[x.buffer] = x.rewrite(u, r.Buffers[x.buffer]) })
	}
}
