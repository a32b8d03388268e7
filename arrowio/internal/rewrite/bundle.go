package rewrite

import "github.com/embedd/embedd/arrowio/internal/ipc"

// indices describes a buffer of dictionary indices in a record.
type indices struct {
	buffer, rows int
	field        *ipc.Field
	valid        []byte
}

// mark adds the entries that the indices refer to.
func (x indices) mark(g *subset, b []byte) {
	for k := range x.rows {
		if x.valid == nil || x.valid[k>>3]>>(k&7)&1 == 1 {
			v, _ := ipc.ReadInteger(b, x.field.Number, k)
			g.add(int(v), int(v)+1)
		}
	}
}

// rewrite returns the indices of the remaining entries. Indices of nulls become 0.
func (x indices) rewrite(g *subset, b []byte) []byte {
	out := make([]byte, 0, x.rows*x.field.Width)
	for k := range x.rows {
		to := 0
		if x.valid == nil || x.valid[k>>3]>>(k&7)&1 == 1 {
			v, _ := ipc.ReadInteger(b, x.field.Number, k)
			to = g.position(int(v))
		}
		for range x.field.Width {
			out = append(out, byte(to))
			to >>= 8
		}
	}
	return out
}

// A Bundle is the content of one output message: parts of batches, and dictionaries.
type Bundle struct {
	Parts []*Part
	dicts []*Record // in the order of the form's dicts
	used  []*subset // used entries by dictionary
	Size  int       // maximum size of the data frames
}

// Cut returns the message of these parts with only the dictionary entries that they use. It does not change the parts
// before Finish.
func (f *Form) Cut(parts []*Part, dicts []ipc.Chunk) *Bundle {
	if len(parts) == 0 {
		return &Bundle{} // dictionaries are only written before a batch
	}
	g := &Bundle{Parts: parts, dicts: make([]*Record, len(f.dicts)), used: make([]*subset, len(dicts))}
	for _, p := range parts {
		g.Size += p.size()
	}
	for k := len(f.dicts) - 1; k >= 0; k-- { // a dictionary comes after those that it uses
		at := f.dicts[k]
		c := &dicts[at]
		reads := 0
		g.eachIndex(at, func(r *Record, x indices) { reads += x.rows })
		u := newSubset(c.Rows, reads)
		g.eachIndex(at, func(r *Record, x indices) { x.mark(u, r.Buffers[x.buffer]) })
		u.complete()
		rec := &Record{Rows: u.total, noting: true}
		rec.take(c, 0, u.spans)
		g.used[at], g.dicts[k] = u, rec
		g.Size += rec.size()
	}
	return g
}

// eachIndex calls f for all indices into one dictionary.
func (g *Bundle) eachIndex(dict int, f func(*Record, indices)) {
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

// Finish replaces the indices by those into the remaining entries.
func (g *Bundle) Finish() {
	for at, u := range g.used {
		if u == nil || u.total == u.domain {
			continue
		}
		g.eachIndex(at, func(r *Record, x indices) { r.Buffers[x.buffer] = x.rewrite(u, r.Buffers[x.buffer]) })
	}
}
