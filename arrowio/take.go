package arrowio

import (
	"math"
	"sort"
)

// A span is the rows lo to hi-1. A list of spans ascends and does not overlap.
type span struct{ lo, hi int }

func count(sel []span) (n int) {
	for _, s := range sel {
		n += s.hi - s.lo
	}
	return n
}

// join appends rows lo to hi-1, merging with the span before.
func join(sel []span, lo, hi int) []span {
	if lo == hi {
		return sel
	}
	if n := len(sel); n > 0 && sel[n-1].hi == lo {
		sel[n-1].hi = hi
		return sel
	}
	return append(sel, span{lo, hi})
}

// without returns the rows of lo to hi-1 that are not in drop, which ascends.
func without(lo, hi int, drop []int) (sel []span) {
	for _, d := range drop {
		if d < lo || d >= hi {
			continue
		}
		sel = join(sel, lo, d)
		lo = d + 1
	}
	return join(sel, lo, hi)
}

// A record is the nodes and buffers of one batch on their way out, in the order of the format. Buffers are views on
// the input wherever rows stay together, and are copied once, into the output.
type record struct {
	rows     int
	nodes    []node
	buffers  [][]byte
	variadic []int
	noting   bool // dictionary indices are noted
	indices  []indices
}

type node struct{ rows, nulls int }

func (r *record) node(rows, nulls int) { r.nodes = append(r.nodes, node{rows, nulls}) }

func (r *record) buffer(b ...[]byte) { r.buffers = append(r.buffers, b...) }

// note remembers where the indices of a dictionary-encoded field stand.
func (r *record) note(f *field, buffer, rows int, valid []byte) {
	if r.noting && f.dict >= 0 {
		r.indices = append(r.indices, indices{buffer, rows, f, valid})
	}
}

// whole appends field i of c with its descendants as they are.
func (r *record) whole(c *chunk, i int) {
	l := c.layout
	end := l.fields[i].end
	first, last := l.fields[i].buffer, l.buffers
	views, lastView := l.fields[i].views, l.views
	if end < len(l.fields) {
		last, lastView = l.fields[end].buffer, l.fields[end].views
	}
	if c.shift != nil {
		first, last = first+c.shift[views], last+c.shift[lastView]
	}
	for j := i; j < end; j++ {
		r.node(c.node(j))
		if f := &l.fields[j]; r.noting && f.dict >= 0 {
			at := f.buffer + 1
			if c.shift != nil {
				at += c.shift[f.views]
			}
			rows, _ := c.node(j)
			r.note(f, len(r.buffers)+at-first, rows, c.valid(j))
		}
	}
	for k := first; k < last; k++ {
		r.buffer(c.buf(k))
	}
	for k := views; k < lastView; k++ {
		r.variadic = append(r.variadic, c.shift[k+1]-c.shift[k])
	}
}

// take appends the selected rows of field i of c with its descendants.
func (r *record) take(c *chunk, i int, sel []span) *Error {
	rows, _ := c.node(i)
	if len(sel) == 1 && sel[0] == (span{0, rows}) || rows == 0 {
		r.whole(c, i)
		return nil
	}
	f := &c.layout.fields[i]
	n := count(sel)
	switch f.kind {
	case kindNull:
		r.node(n, n)
		return nil
	case kindRunEnd:
		r.node(n, 0)
		return r.runs(c, i, sel)
	case kindSparse, kindDense:
		r.node(n, 0)
		return r.union(c, i, sel)
	}
	valid := takeBits(c.valid(i), sel, n)
	nulls := 0
	if valid != nil {
		if nulls = countNulls(valid, n); nulls == 0 {
			valid = nil
		}
	}
	r.node(n, nulls)
	r.buffer(valid)
	switch f.kind {
	case kindBool:
		r.buffer(takeBits(c.buffer(i, 1), sel, n))
	case kindFixed:
		r.note(f, len(r.buffers), n, valid)
		r.buffer(takeFixed(c.buffer(i, 1), f.width, sel))
	case kindBinary:
		offsets, data, _ := takeOffsets(c.buffer(i, 1), f.width, sel)
		r.buffer(offsets, takeFixed(c.buffer(i, 2), 1, data))
	case kindView:
		r.views(c, i, sel, n)
	case kindList:
		offsets, child, _ := takeOffsets(c.buffer(i, 1), f.width, sel)
		r.buffer(offsets)
		return r.take(c, i+1, child)
	case kindListView:
		return r.listViews(c, i, sel, n)
	case kindFixedList:
		child := make([]span, 0, len(sel))
		for _, s := range sel {
			child = join(child, s.lo*f.size, s.hi*f.size)
		}
		return r.take(c, i+1, child)
	case kindStruct:
		return r.children(c, i, sel)
	}
	return nil
}

func (r *record) children(c *chunk, i int, sel []span) *Error {
	for j := i + 1; j < c.layout.fields[i].end; j = c.layout.fields[j].end {
		if e := r.take(c, j, sel); e != nil {
			return e
		}
	}
	return nil
}

// takeFixed copies values of width bytes; one span is a view.
func takeFixed(b []byte, width int, sel []span) []byte {
	if len(sel) == 0 || width == 0 {
		return nil
	}
	if len(sel) == 1 {
		return b[sel[0].lo*width : sel[0].hi*width]
	}
	out := make([]byte, 0, count(sel)*width)
	for _, s := range sel {
		out = append(out, b[s.lo*width:s.hi*width]...)
	}
	return out
}

// takeBits copies n selected bits of a bitmap; nil stays nil. A span that begins on a byte is a view but for what
// follows its last bit.
func takeBits(b []byte, sel []span, n int) []byte {
	if b == nil || n == 0 {
		return nil
	}
	if len(sel) == 1 && sel[0].lo%8 == 0 {
		return b[sel[0].lo/8 : (sel[0].hi+7)/8]
	}
	out := make([]byte, (n+7)/8)
	k := 0
	for _, s := range sel {
		for at := s.lo; at < s.hi; {
			if bits := uint(at & 7); k&7 == 0 && at+8 <= s.hi {
				v := b[at>>3] >> bits
				if bits > 0 {
					v |= b[at>>3+1] << (8 - bits)
				}
				out[k>>3] = v
				at, k = at+8, k+8
				continue
			}
			out[k>>3] |= b[at>>3] >> (at & 7) & 1 << (k & 7)
			at, k = at+1, k+1
		}
	}
	return out
}

// takeOffsets returns the offsets of the selected rows from 0 up, and the spans of the child or data that they cover.
func takeOffsets(b []byte, width int, sel []span) (out []byte, child []span, total int64) {
	out = make([]byte, 0, (count(sel)+1)*width)
	out = appendInteger(out, width, 0)
	for _, s := range sel {
		base := offset(b, width, s.lo)
		for k := s.lo + 1; k <= s.hi; k++ {
			out = appendInteger(out, width, total+offset(b, width, k)-base)
		}
		end := offset(b, width, s.hi)
		total += end - base
		child = join(child, int(base), int(end))
	}
	return out, child, total
}

func appendInteger(b []byte, width int, v int64) []byte {
	if width == 4 {
		return le.AppendUint32(b, uint32(v))
	}
	return le.AppendUint64(b, uint64(v))
}

// views takes rows of a view column. The long values are gathered in one data buffer when that is the smaller form;
// bytes that views share are gathered once.
func (r *record) views(c *chunk, i int, sel []span, n int) {
	out := takeFixed(c.buffer(i, 1), 16, sel)
	first, buffers := c.data(i)
	begins, have := make([]int, buffers), 0 // of the data buffers side by side, each a byte apart from the next
	for k := 0; k < buffers; k++ {
		begins[k] = have + k
		have += len(c.buf(first + k))
	}
	valid := c.valid(i)
	var used []span
	ordered := true
	for _, s := range sel {
		for k := s.lo; k < s.hi; k++ {
			if size, ok := longView(c.buffer(i, 1), valid, k); ok {
				v := c.buffer(i, 1)[16*k:]
				at := begins[le.Uint32(v[8:])] + int(le.Uint32(v[12:]))
				ordered = ordered && (len(used) == 0 || used[len(used)-1].hi <= at)
				if ordered {
					used = join(used, at, at+size)
				} else {
					used = append(used, span{at, at + size})
				}
			}
		}
	}
	if !ordered {
		used = union(used)
	}
	long := count(used)
	if long >= have || long > math.MaxInt32 {
		r.buffer(out)
		for k := 0; k < buffers; k++ {
			r.buffer(c.buf(first + k))
		}
		r.variadic = append(r.variadic, buffers)
		return
	}
	out = append(make([]byte, 0, len(out)), out...)
	base := bases(used)
	at := 0
	for _, s := range sel {
		for k := s.lo; k < s.hi; k, at = k+1, at+1 {
			if _, ok := longView(c.buffer(i, 1), valid, k); !ok {
				if valid != nil && valid[k>>3]>>(k&7)&1 == 0 {
					clear(out[16*at : 16*at+16]) // what stands at a null may point anywhere
				}
				continue
			}
			from := begins[le.Uint32(out[16*at+8:])] + int(le.Uint32(out[16*at+12:]))
			le.PutUint32(out[16*at+8:], 0)
			le.PutUint32(out[16*at+12:], uint32(place(used, base, from)))
		}
	}
	if r.buffer(out); long == 0 {
		r.variadic = append(r.variadic, 0)
		return
	}
	data := make([]byte, 0, long)
	k := 0
	for _, s := range used {
		for k+1 < buffers && begins[k+1] <= s.lo {
			k++
		}
		data = append(data, c.buf(first + k)[s.lo-begins[k]:s.hi-begins[k]]...)
	}
	r.buffer(data)
	r.variadic = append(r.variadic, 1)
}

// longView reports the size of a valid value that is not inside its view.
func longView(views, valid []byte, k int) (int, bool) {
	size := int(int32(le.Uint32(views[16*k:])))
	return size, size > 12 && (valid == nil || valid[k>>3]>>(k&7)&1 == 1)
}

// listViews takes rows of a list-view column, and of the child what their lists cover, once where lists overlap.
func (r *record) listViews(c *chunk, i int, sel []span, n int) *Error {
	w := c.layout.fields[i].width
	from, size, valid := c.buffer(i, 1), c.buffer(i, 2), c.valid(i)
	var child []span
	ordered := true
	each := func(f func(at, size int64)) {
		for _, s := range sel {
			for k := s.lo; k < s.hi; k++ {
				if m := offset(size, w, k); valid == nil || valid[k>>3]>>(k&7)&1 == 1 {
					f(offset(from, w, k), m)
				} else {
					f(0, 0)
				}
			}
		}
	}
	each(func(at, m int64) {
		ordered = ordered && (m == 0 || len(child) == 0 || int64(child[len(child)-1].hi) <= at)
		if ordered {
			child = join(child, int(at), int(at+m))
		} else if m > 0 {
			child = append(child, span{int(at), int(at + m)})
		}
	})
	if !ordered {
		child = union(child)
	}
	base := bases(child)
	offsets, sizes := make([]byte, 0, n*w), make([]byte, 0, n*w)
	each(func(at, m int64) {
		to := 0
		if m > 0 {
			to = place(child, base, int(at))
		}
		offsets, sizes = appendInteger(offsets, w, int64(to)), appendInteger(sizes, w, m)
	})
	r.buffer(offsets, sizes)
	return r.take(c, i+1, child)
}

// runs takes rows of a run-end encoded column: the runs that they are in, each once where its rows follow one another.
func (r *record) runs(c *chunk, i int, sel []span) *Error {
	ends := &c.layout.fields[i+1]
	n, _ := c.node(i + 1)
	end := func(k int) int { v, _ := c.index(i+1, k); return int(v) }
	var out []byte
	var child []span
	run, newest, total := 0, -1, 0
	for _, s := range sel {
		for lo := s.lo; lo < s.hi; {
			run += sort.Search(n-run, func(k int) bool { return end(run+k) > lo })
			hi := min(end(run), s.hi)
			total += hi - lo
			lo = hi
			if run == newest {
				out = out[:len(out)-ends.width] // the run goes on after rows that are left out
			} else {
				child = join(child, run, run+1)
			}
			newest = run
			out = append(out, le.AppendUint64(nil, uint64(total))[:ends.width]...)
		}
	}
	r.node(count(child), 0)
	r.buffer(nil, out)
	return r.take(c, ends.end, child)
}

// union takes rows of a union, and of the children of a dense one the rows that they use.
func (r *record) union(c *chunk, i int, sel []span) *Error {
	f := &c.layout.fields[i]
	types := c.buffer(i, 0)
	r.buffer(takeFixed(types, 1, sel))
	if f.kind == kindSparse {
		return r.children(c, i, sel)
	}
	var childOf [256]int
	for k, id := range f.ids {
		childOf[id] = k
	}
	from := c.buffer(i, 1)
	child, ordered := make([][]span, len(f.ids)), make([]bool, len(f.ids))
	for k := range ordered {
		ordered[k] = true
	}
	for _, s := range sel {
		for k := s.lo; k < s.hi; k++ {
			id, at := childOf[types[k]], int(offset(from, 4, k))
			n := len(child[id])
			if ordered[id] = ordered[id] && (n == 0 || child[id][n-1].hi <= at); ordered[id] {
				child[id] = join(child[id], at, at+1)
			} else {
				child[id] = append(child[id], span{at, at + 1})
			}
		}
	}
	base := make([][]int, len(child))
	for id := range child {
		if !ordered[id] {
			child[id] = union(child[id])
		}
		base[id] = bases(child[id])
	}
	offsets := make([]byte, 0, 4*count(sel))
	for _, s := range sel {
		for k := s.lo; k < s.hi; k++ {
			id := childOf[types[k]]
			offsets = appendInteger(offsets, 4, int64(place(child[id], base[id], int(offset(from, 4, k)))))
		}
	}
	r.buffer(offsets)
	for j, k := i+1, 0; j < f.end; j, k = c.layout.fields[j].end, k+1 {
		if e := r.take(c, j, child[k]); e != nil {
			return e
		}
	}
	return nil
}
