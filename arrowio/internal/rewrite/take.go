package rewrite

import (
	"math"
	"sort"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

// A Record is the nodes and buffers of a batch in an output, in the order of the format. Buffers are views on the input
// where rows stay together, and are copied once, into the output.
type Record struct {
	Rows     int
	Nodes    []Node
	Buffers  [][]byte
	Variadic []int
	noting   bool // note the buffers with dictionary indices
	indices  []indices
}

// A Node is the metadata of a field in a record.
type Node struct{ Rows, Nulls int }

func (r *Record) node(rows, nulls int) { r.Nodes = append(r.Nodes, Node{rows, nulls}) }

func (r *Record) buffer(b ...[]byte) { r.Buffers = append(r.Buffers, b...) }

// note records the buffer with the indices of a dictionary-encoded field.
func (r *Record) note(f *ipc.Field, buffer, rows int, valid []byte) {
	if r.noting && f.Dict >= 0 {
		r.indices = append(r.indices, indices{buffer, rows, f, valid})
	}
}

// Whole appends all rows of field i of c with its descendants. The offset of a column without rows becomes 0: pyarrow
// may write another one, which other readers refuse.
func (r *Record) Whole(c *ipc.Chunk, i int) {
	l := c.Layout
	end := l.Fields[i].End
	first, last := l.Fields[i].Buffer, l.Buffers
	views, lastView := l.Fields[i].Views, l.Views
	if end < len(l.Fields) {
		last, lastView = l.Fields[end].Buffer, l.Fields[end].Views
	}
	if c.Shift != nil {
		first, last = first+c.Shift[views], last+c.Shift[lastView]
	}
	begin := len(r.Buffers)
	for k := first; k < last; k++ {
		r.buffer(c.Buf(k))
	}
	for j := i; j < end; j++ {
		f := &l.Fields[j]
		rows, nulls := c.Node(j)
		r.node(rows, nulls)
		at := begin + f.Buffer + 1 - first
		if c.Shift != nil {
			at += c.Shift[f.Views]
		}
		switch {
		case r.noting && f.Dict >= 0:
			r.note(f, at, rows, c.Valid(j))
		case rows == 0 && (f.Kind == ipc.KindBinary || f.Kind == ipc.KindList) && len(r.Buffers[at]) > 0:
			r.Buffers[at] = zeroOffset[:f.Width]
		}
	}
	for k := views; k < lastView; k++ {
		r.Variadic = append(r.Variadic, c.Shift[k+1]-c.Shift[k])
	}
}

var zeroOffset [8]byte

// take appends the selected rows of field i of c with its descendants.
func (r *Record) take(c *ipc.Chunk, i int, sel []ipc.Span) {
	rows, _ := c.Node(i)
	if len(sel) == 1 && sel[0] == (ipc.Span{Lo: 0, Hi: rows}) || rows == 0 {
		r.Whole(c, i)
		return
	}
	f := &c.Layout.Fields[i]
	n := ipc.CountRows(sel)
	switch f.Kind {
	case ipc.KindNull:
		r.node(n, n)
		return
	case ipc.KindRunEnd:
		r.node(n, 0)
		r.runs(c, i, sel)
		return
	case ipc.KindSparse, ipc.KindDense:
		r.node(n, 0)
		r.union(c, i, sel)
		return
	}
	valid := ipc.TakeBits(c.Valid(i), sel, n)
	nulls := 0
	if valid != nil {
		if nulls = ipc.CountNulls(valid, n); nulls == 0 {
			valid = nil
		}
	}
	r.node(n, nulls)
	r.buffer(valid)
	switch f.Kind {
	case ipc.KindBool:
		r.buffer(ipc.TakeBits(c.Buffer(i, 1), sel, n))
	case ipc.KindFixed:
		r.note(f, len(r.Buffers), n, valid)
		r.buffer(takeFixed(c.Buffer(i, 1), f.Width, sel))
	case ipc.KindBinary:
		offsets, data := takeOffsets(c.Buffer(i, 1), f.Width, sel)
		r.buffer(offsets, takeFixed(c.Buffer(i, 2), 1, data))
	case ipc.KindView:
		r.views(c, i, sel, n)
	case ipc.KindList:
		offsets, child := takeOffsets(c.Buffer(i, 1), f.Width, sel)
		r.buffer(offsets)
		r.take(c, i+1, child)
	case ipc.KindListView:
		r.listViews(c, i, sel, n)
	case ipc.KindFixedList:
		child := make([]ipc.Span, 0, len(sel))
		for _, s := range sel {
			child = ipc.JoinSpans(child, s.Lo*f.Size, s.Hi*f.Size)
		}
		r.take(c, i+1, child)
	case ipc.KindStruct:
		r.children(c, i, sel)
	}
}

func (r *Record) children(c *ipc.Chunk, i int, sel []ipc.Span) {
	for j := i + 1; j < c.Layout.Fields[i].End; j = c.Layout.Fields[j].End {
		r.take(c, j, sel)
	}
}

// takeFixed returns selected values of width bytes; a single span is a view.
func takeFixed(b []byte, width int, sel []ipc.Span) []byte {
	if len(sel) == 0 || width == 0 {
		return nil
	}
	if len(sel) == 1 {
		return b[sel[0].Lo*width : sel[0].Hi*width]
	}
	out := make([]byte, 0, ipc.CountRows(sel)*width)
	for _, s := range sel {
		out = append(out, b[s.Lo*width:s.Hi*width]...)
	}
	return out
}

// takeOffsets returns the offsets of the selected rows, counted from 0, and the spans of the child or data that they
// cover.
func takeOffsets(b []byte, width int, sel []ipc.Span) (out []byte, child []ipc.Span) {
	out = make([]byte, 0, (ipc.CountRows(sel)+1)*width)
	out = ipc.AppendInteger(out, width, 0)
	total := int64(0)
	for _, s := range sel {
		base := ipc.Offset(b, width, s.Lo)
		for k := s.Lo + 1; k <= s.Hi; k++ {
			out = ipc.AppendInteger(out, width, total+ipc.Offset(b, width, k)-base)
		}
		end := ipc.Offset(b, width, s.Hi)
		total += end - base
		child = ipc.JoinSpans(child, int(base), int(end))
	}
	return out, child
}

// views appends rows of a view column. Long values are copied to one data buffer if that is smaller than all data
// buffers; bytes that views share are copied once.
func (r *Record) views(c *ipc.Chunk, i int, sel []ipc.Span, n int) {
	out := takeFixed(c.Buffer(i, 1), 16, sel)
	first, buffers := c.Data(i)
	// positions of the data buffers in their concatenation, with a gap of one byte so that they do not merge
	begins, have := make([]int, buffers), 0
	for k := 0; k < buffers; k++ {
		begins[k] = have + k
		have += len(c.Buf(first + k))
	}
	valid := c.Valid(i)
	used := newSubset(have+buffers, n)
	for _, s := range sel {
		for k := s.Lo; k < s.Hi; k++ {
			if size, ok := longView(c.Buffer(i, 1), valid, k); ok {
				v := c.Buffer(i, 1)[16*k:]
				at := begins[le.Uint32(v[8:])] + int(le.Uint32(v[12:]))
				used.add(at, at+size)
			}
		}
	}
	used.complete()
	if used.total >= have || used.total > math.MaxInt32 {
		r.buffer(out)
		for k := 0; k < buffers; k++ {
			r.buffer(c.Buf(first + k))
		}
		r.Variadic = append(r.Variadic, buffers)
		return
	}
	out = append(make([]byte, 0, len(out)), out...)
	at := 0
	for _, s := range sel {
		for k := s.Lo; k < s.Hi; k, at = k+1, at+1 {
			if _, ok := longView(c.Buffer(i, 1), valid, k); !ok {
				if valid != nil && valid[k>>3]>>(k&7)&1 == 0 {
					clear(out[16*at : 16*at+16]) // the view of a null may point anywhere
				}
				continue
			}
			from := begins[le.Uint32(out[16*at+8:])] + int(le.Uint32(out[16*at+12:]))
			le.PutUint32(out[16*at+8:], 0)
			le.PutUint32(out[16*at+12:], uint32(used.position(from)))
		}
	}
	if r.buffer(out); used.total == 0 {
		r.Variadic = append(r.Variadic, 0)
		return
	}
	data := make([]byte, 0, used.total)
	k := 0
	for _, s := range used.spans {
		for k+1 < buffers && begins[k+1] <= s.Lo {
			k++
		}
		data = append(data, c.Buf(first + k)[s.Lo-begins[k]:s.Hi-begins[k]]...)
	}
	r.buffer(data)
	r.Variadic = append(r.Variadic, 1)
}

// longView returns the size of a valid value, and whether it is too long to be inside its view.
func longView(views, valid []byte, k int) (int, bool) {
	size := int(int32(le.Uint32(views[16*k:])))
	return size, size > 12 && (valid == nil || valid[k>>3]>>(k&7)&1 == 1)
}

// listViews appends rows of a list-view column, and the part of the child that they use, once where lists overlap.
func (r *Record) listViews(c *ipc.Chunk, i int, sel []ipc.Span, n int) {
	w := c.Layout.Fields[i].Width
	from, size, valid := c.Buffer(i, 1), c.Buffer(i, 2), c.Valid(i)
	each := func(f func(at, size int64)) {
		for _, s := range sel {
			for k := s.Lo; k < s.Hi; k++ {
				if m := ipc.Offset(size, w, k); valid == nil || valid[k>>3]>>(k&7)&1 == 1 {
					f(ipc.Offset(from, w, k), m)
				} else {
					f(0, 0)
				}
			}
		}
	}
	rows, _ := c.Node(i + 1)
	used := newSubset(rows, n)
	each(func(at, m int64) { used.add(int(at), int(at+m)) })
	used.complete()
	offsets, sizes := make([]byte, 0, n*w), make([]byte, 0, n*w)
	each(func(at, m int64) {
		to := 0
		if m > 0 {
			to = used.position(int(at))
		}
		offsets, sizes = ipc.AppendInteger(offsets, w, int64(to)), ipc.AppendInteger(sizes, w, m)
	})
	r.buffer(offsets, sizes)
	r.take(c, i+1, used.spans)
}

// runs appends the runs of a run-end encoded column that have selected rows, each once if its rows are consecutive in
// the output.
func (r *Record) runs(c *ipc.Chunk, i int, sel []ipc.Span) {
	ends := &c.Layout.Fields[i+1]
	n, _ := c.Node(i + 1)
	end := func(k int) int { v, _ := c.Index(i+1, k); return int(v) }
	var out []byte
	var child []ipc.Span
	run, newest, total := 0, -1, 0
	for _, s := range sel {
		for lo := s.Lo; lo < s.Hi; {
			run += sort.Search(n-run, func(k int) bool { return end(run+k) > lo })
			hi := min(end(run), s.Hi)
			total += hi - lo
			lo = hi
			if run == newest {
				out = out[:len(out)-ends.Width] // the run continues after rows that are left out
			} else {
				child = ipc.JoinSpans(child, run, run+1)
			}
			newest = run
			out = append(out, le.AppendUint64(nil, uint64(total))[:ends.Width]...)
		}
	}
	r.node(ipc.CountRows(child), 0)
	r.buffer(nil, out)
	r.take(c, ends.End, child)
}

// union appends rows of a union, and for a dense union the rows of the children that they use.
func (r *Record) union(c *ipc.Chunk, i int, sel []ipc.Span) {
	f := &c.Layout.Fields[i]
	types := c.Buffer(i, 0)
	r.buffer(takeFixed(types, 1, sel))
	if f.Kind == ipc.KindSparse {
		r.children(c, i, sel)
		return
	}
	var childOf [256]int
	for k, id := range f.IDs {
		childOf[id] = k
	}
	from := c.Buffer(i, 1)
	rows := make([]int, len(f.IDs)) // number of rows that use each child
	for _, s := range sel {
		for _, id := range types[s.Lo:s.Hi] {
			rows[childOf[id]]++
		}
	}
	used := make([]*subset, len(f.IDs))
	for j, k := i+1, 0; j < f.End; j, k = c.Layout.Fields[j].End, k+1 {
		domain, _ := c.Node(j)
		used[k] = newSubset(domain, rows[k])
	}
	for _, s := range sel {
		for k := s.Lo; k < s.Hi; k++ {
			at := int(ipc.Offset(from, 4, k))
			used[childOf[types[k]]].add(at, at+1)
		}
	}
	for _, u := range used {
		u.complete()
	}
	offsets := make([]byte, 0, 4*ipc.CountRows(sel))
	for _, s := range sel {
		for k := s.Lo; k < s.Hi; k++ {
			offsets = ipc.AppendInteger(offsets, 4, int64(used[childOf[types[k]]].position(int(ipc.Offset(from, 4, k)))))
		}
	}
	r.buffer(offsets)
	for j, k := i+1, 0; j < f.End; j, k = c.Layout.Fields[j].End, k+1 {
		r.take(c, j, used[k].spans)
	}
}

// size returns the maximum size of a data frame without the batch's own metadata. It does not depend on compression, so
// that split points depend on the input alone (Invariant 2).
func (r *Record) size() int {
	n := 256 + 16*len(r.Nodes) + 8*len(r.Variadic)
	for _, b := range r.Buffers {
		n += 16 + 16 + len(b) // range, padding and, if compressed, the size in front
	}
	return n
}
