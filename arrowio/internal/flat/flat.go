// Package flat reads flatbuffers from untrusted sources: a wrong offset is an error, never a read outside the buffer
// (Invariant 6). The functions panic with that error, a *wire.Error, so that a reader of a nested structure can stop at
// any depth; the functions that a host calls recover it.
package flat

import (
	"encoding/binary"

	"github.com/embedd/embedd/arrowio/wire"
)

// A Table is a checked view of a flatbuffer table. Open checks that its vtable is inside the buffer; each access to a
// slot, vector or string is checked in the same way.
type Table struct {
	Buf   []byte
	Pos   int // of the table
	slots []byte
}

var le = binary.LittleEndian

func broken(format string, args ...any) *wire.Error {
	return wire.Errorf(wire.Malformed, format, args...).WithHint(
		"publish the bytes of an Arrow IPC stream writer unchanged")
}

func outside(what string) *wire.Error {
	return broken("%s points outside the message's metadata", what)
}

// Open opens the table at pos. what names it in errors.
func Open(buf []byte, pos int, what string) Table {
	if pos < 4 || pos > len(buf)-4 {
		panic(outside(what))
	}
	vt := int64(pos) - int64(int32(le.Uint32(buf[pos:])))
	if vt < 0 || vt > int64(len(buf)-4) {
		panic(outside(what))
	}
	n := int(le.Uint16(buf[vt:]))
	if n < 4 || n%2 != 0 || int(vt)+n > len(buf) {
		panic(outside(what))
	}
	return Table{buf, pos, buf[int(vt)+4 : int(vt)+n]}
}

// Root opens the table that the buffer begins with.
func Root(buf []byte, what string) Table {
	if len(buf) < 8 {
		panic(outside(what))
	}
	return Open(buf, follow(buf, 0), what)
}

// follow resolves the forward offset at pos; -1 if it points outside the buffer.
func follow(buf []byte, pos int) int {
	to := uint64(pos) + uint64(le.Uint32(buf[pos:]))
	if to > uint64(len(buf)) {
		return -1
	}
	return int(to)
}

// Slot returns the position of slot i, which has width bytes; 0 if it is absent.
func (t Table) Slot(i, width int, what string) int {
	if 2*i+2 > len(t.slots) {
		return 0
	}
	o := int(le.Uint16(t.slots[2*i:]))
	if o == 0 {
		return 0
	}
	// The vtable's own size of the table is no limit: the Go builder shares vtables between tables of different sizes.
	if o < 4 || t.Pos+o+width > len(t.Buf) {
		panic(outside(what))
	}
	return t.Pos + o
}

// Integer reads a signed scalar slot of 1, 2, 4 or 8 bytes.
func (t Table) Integer(i, width int, missing int64, what string) int64 {
	p := t.Slot(i, width, what)
	if p == 0 {
		return missing
	}
	switch width {
	case 1:
		return int64(int8(t.Buf[p]))
	case 2:
		return int64(int16(le.Uint16(t.Buf[p:])))
	case 4:
		return int64(int32(le.Uint32(t.Buf[p:])))
	}
	return int64(le.Uint64(t.Buf[p:]))
}

// Table opens the table that slot i refers to; ok is false if the slot is absent.
func (t Table) Table(i int, what string) (sub Table, ok bool) {
	p := t.Slot(i, 4, what)
	if p == 0 {
		return Table{}, false
	}
	return Open(t.Buf, follow(t.Buf, p), what), true
}

// A Vector is a checked view of a flatbuffer vector: all its elements are inside the buffer.
type Vector struct {
	Buf  []byte
	Pos  int // position of the first element; 0 if the vector is absent
	Len  int
	elem int
}

// Bytes returns the bytes of the elements.
func (v Vector) Bytes() []byte { return v.Buf[v.Pos : v.Pos+v.Len*v.elem : v.Pos+v.Len*v.elem] }

// Table opens the table that element i refers to.
func (v Vector) Table(i int, what string) Table {
	return Open(v.Buf, follow(v.Buf, v.Pos+i*v.elem), what)
}

// Vector opens the vector of slot i, with elements of elem bytes. An absent vector is an empty one.
func (t Table) Vector(i, elem int, what string) Vector {
	p := t.Slot(i, 4, what)
	if p == 0 {
		return Vector{Buf: t.Buf, elem: elem}
	}
	at := follow(t.Buf, p)
	if at < 0 || at > len(t.Buf)-4 {
		panic(outside(what))
	}
	n := uint64(le.Uint32(t.Buf[at:]))
	if n*uint64(elem) > uint64(len(t.Buf)-at-4) {
		panic(broken("%s declares %d entries and the metadata ends before them", what, n))
	}
	return Vector{t.Buf, at + 4, int(n), elem}
}

// Text reads a string slot as bytes of the buffer.
func (t Table) Text(i int, what string) (b []byte, ok bool) {
	v := t.Vector(i, 1, what)
	return v.Bytes(), v.Pos != 0
}
