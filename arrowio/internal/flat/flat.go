// Package flat reads flatbuffers from untrusted sources: a wrong offset is an error, never a read outside the buffer
// (Invariant 6).
package flat

import (
	"encoding/binary"
	"fmt"
)

// A Table is a checked view of a flatbuffer table. Open checks that its vtable is inside the buffer; each access to a
// slot, vector or string is checked in the same way.
type Table struct {
	Buf   []byte
	Pos   int // of the table
	slots []byte
}

var le = binary.LittleEndian

func outside(what string) error {
	return fmt.Errorf("%s points outside the message's metadata", what)
}

// Open opens the table at pos. what names it in errors.
func Open(buf []byte, pos int, what string) (Table, error) {
	if pos < 4 || pos > len(buf)-4 {
		return Table{}, outside(what)
	}
	vt := int64(pos) - int64(int32(le.Uint32(buf[pos:])))
	if vt < 0 || vt > int64(len(buf)-4) {
		return Table{}, outside(what)
	}
	n := int(le.Uint16(buf[vt:]))
	if n < 4 || n%2 != 0 || int(vt)+n > len(buf) {
		return Table{}, outside(what)
	}
	return Table{buf, pos, buf[int(vt)+4 : int(vt)+n]}, nil
}

// Root opens the table that the buffer begins with.
func Root(buf []byte, what string) (Table, error) {
	if len(buf) < 8 {
		return Table{}, outside(what)
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
func (t Table) Slot(i, width int, what string) (int, error) {
	if 2*i+2 > len(t.slots) {
		return 0, nil
	}
	o := int(le.Uint16(t.slots[2*i:]))
	if o == 0 {
		return 0, nil
	}
	// The vtable's own size of the table is no limit: the Go builder shares vtables between tables of different sizes.
	if o < 4 || t.Pos+o+width > len(t.Buf) {
		return 0, outside(what)
	}
	return t.Pos + o, nil
}

// Integer reads a signed scalar slot of 1, 2, 4 or 8 bytes.
func (t Table) Integer(i, width int, missing int64, what string) (int64, error) {
	p, err := t.Slot(i, width, what)
	if err != nil || p == 0 {
		return missing, err
	}
	switch width {
	case 1:
		return int64(int8(t.Buf[p])), nil
	case 2:
		return int64(int16(le.Uint16(t.Buf[p:]))), nil
	case 4:
		return int64(int32(le.Uint32(t.Buf[p:]))), nil
	}
	return int64(le.Uint64(t.Buf[p:])), nil
}

// Table opens the table that slot i refers to; ok is false if the slot is absent.
func (t Table) Table(i int, what string) (sub Table, ok bool, err error) {
	p, err := t.Slot(i, 4, what)
	if err != nil || p == 0 {
		return Table{}, false, err
	}
	sub, err = Open(t.Buf, follow(t.Buf, p), what)
	return sub, err == nil, err
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
func (v Vector) Table(i int, what string) (Table, error) {
	return Open(v.Buf, follow(v.Buf, v.Pos+i*v.elem), what)
}

// Vector opens the vector of slot i, with elements of elem bytes. An absent vector is an empty one.
func (t Table) Vector(i, elem int, what string) (Vector, error) {
	p, err := t.Slot(i, 4, what)
	if err != nil || p == 0 {
		return Vector{Buf: t.Buf, elem: elem}, err
	}
	at := follow(t.Buf, p)
	if at < 0 || at > len(t.Buf)-4 {
		return Vector{}, outside(what)
	}
	n := uint64(le.Uint32(t.Buf[at:]))
	if n*uint64(elem) > uint64(len(t.Buf)-at-4) {
		return Vector{}, fmt.Errorf("%s declares %d entries and the metadata ends before them", what, n)
	}
	return Vector{t.Buf, at + 4, int(n), elem}, nil
}

// Text reads a string slot as bytes of the buffer.
func (t Table) Text(i int, what string) (b []byte, ok bool, err error) {
	v, err := t.Vector(i, 1, what)
	if err != nil {
		return nil, false, err
	}
	return v.Bytes(), v.Pos != 0, nil
}
