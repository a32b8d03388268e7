package arrowio

import (
	"encoding/binary"

	"github.com/embedd/embedd/arrowio/wire"
)

// A table is a checked view of one flatbuffer table. Opening it proves that its vtable lies inside the buffer; every access to a
// slot, vector or string is checked in the same way, so that a wrong offset is an error and never a read outside.
type table struct {
	buf   []byte
	pos   int // of the table
	slots []byte
}

var le = binary.LittleEndian

func brokenTable(what string) *Error {
	return fault(wire.Malformed, "%s points outside the message's metadata", what).hint("publish the bytes of an Arrow IPC stream writer unchanged")
}

func openTable(buf []byte, pos int, what string) (table, *Error) {
	if pos < 4 || pos > len(buf)-4 {
		return table{}, brokenTable(what)
	}
	vt := int64(pos) - int64(int32(le.Uint32(buf[pos:])))
	if vt < 0 || vt > int64(len(buf)-4) {
		return table{}, brokenTable(what)
	}
	n := int(le.Uint16(buf[vt:]))
	if n < 4 || n%2 != 0 || int(vt)+n > len(buf) {
		return table{}, brokenTable(what)
	}
	return table{buf, pos, buf[int(vt)+4 : int(vt)+n]}, nil
}

func rootTable(buf []byte, what string) (table, *Error) {
	if len(buf) < 8 {
		return table{}, brokenTable(what)
	}
	return openTable(buf, follow(buf, 0), what)
}

// follow resolves the forward offset at pos; -1 where it leads outside.
func follow(buf []byte, pos int) int {
	to := uint64(pos) + uint64(le.Uint32(buf[pos:]))
	if to > uint64(len(buf)) {
		return -1
	}
	return int(to)
}

// slot returns the position of slot i, of width bytes; 0 where it is absent.
func (t table) slot(i, width int, what string) (int, *Error) {
	if 2*i+2 > len(t.slots) {
		return 0, nil
	}
	o := int(le.Uint16(t.slots[2*i:]))
	if o == 0 {
		return 0, nil
	}
	// The vtable's own size of the table is no bound: the Go builder shares vtables between tables of different sizes.
	if o < 4 || t.pos+o+width > len(t.buf) {
		return 0, brokenTable(what)
	}
	return t.pos + o, nil
}

// integer reads a signed scalar slot of 1, 2, 4 or 8 bytes.
func (t table) integer(i, width int, missing int64, what string) (int64, *Error) {
	p, e := t.slot(i, width, what)
	if e != nil || p == 0 {
		return missing, e
	}
	switch width {
	case 1:
		return int64(int8(t.buf[p])), nil
	case 2:
		return int64(int16(le.Uint16(t.buf[p:]))), nil
	case 4:
		return int64(int32(le.Uint32(t.buf[p:]))), nil
	}
	return int64(le.Uint64(t.buf[p:])), nil
}

// table opens the table that slot i refers to; ok is false where it is absent.
func (t table) table(i int, what string) (sub table, ok bool, e *Error) {
	p, e := t.slot(i, 4, what)
	if e != nil || p == 0 {
		return table{}, false, e
	}
	sub, e = openTable(t.buf, follow(t.buf, p), what)
	return sub, e == nil, e
}

// A vector is a checked view of a flatbuffer vector: all its elements lie inside the buffer.
type vector struct {
	buf  []byte
	pos  int // of the first element
	n    int
	elem int
}

func (v vector) bytes() []byte { return v.buf[v.pos : v.pos+v.n*v.elem : v.pos+v.n*v.elem] }

// table opens the table that element i refers to.
func (v vector) table(i int, what string) (table, *Error) {
	return openTable(v.buf, follow(v.buf, v.pos+i*v.elem), what)
}

// vector opens the vector of slot i, with elements of elem bytes. An absent vector is an empty one.
func (t table) vector(i, elem int, what string) (vector, *Error) {
	p, e := t.slot(i, 4, what)
	if e != nil || p == 0 {
		return vector{buf: t.buf, elem: elem}, e
	}
	at := follow(t.buf, p)
	if at < 0 || at > len(t.buf)-4 {
		return vector{}, brokenTable(what)
	}
	n := uint64(le.Uint32(t.buf[at:]))
	if n*uint64(elem) > uint64(len(t.buf)-at-4) {
		return vector{}, fault(wire.Malformed, "%s declares %d entries and the metadata ends before them", what, n).
			hint("publish the bytes of an Arrow IPC stream writer unchanged")
	}
	return vector{t.buf, at + 4, int(n), elem}, nil
}

// text reads a string slot as bytes of the buffer.
func (t table) text(i int, what string) (b []byte, ok bool, e *Error) {
	v, e := t.vector(i, 1, what)
	if e != nil {
		return nil, false, e
	}
	return v.bytes(), v.pos != 0, nil
}
