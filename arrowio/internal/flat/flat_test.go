package flat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/embedd/embedd/arrowio/wire"
)

// message is a buffer whose root table has an integer of each width in slots 0 to 3, a vector of elements of 8 bytes in
// slot 4, nothing in slot 5, and a table in slot 6: the vector is the end of the buffer.
func message(entries, declared int) []byte {
	le := binary.LittleEndian
	b := make([]byte, 60+8*entries)
	le.PutUint32(b, 24) // the root
	vtable := b[4:24]
	le.PutUint16(vtable, 18)
	for slot, at := range []int{4, 6, 8, 12, 20, 0, 24} {
		le.PutUint16(vtable[4+2*slot:], uint16(at))
	}
	table := b[24:]
	le.PutUint32(table, 20) // its vtable is 20 bytes before it
	table[4] = 0xfe
	le.PutUint16(table[6:], 0xfffd)
	le.PutUint32(table[8:], 0xfffffffc)
	le.PutUint64(table[12:], 0xfffffffffffffffb)
	le.PutUint32(table[20:], 12) // the vector is 12 bytes behind its slot
	le.PutUint32(table[24:], 0)
	le.PutUint32(b[56:], uint32(declared))
	for k := range entries {
		le.PutUint64(b[60+8*k:], uint64(k))
	}
	return b
}

// caught returns the error with which f panics. Another panic is one of the runtime: a read outside the buffer.
func caught(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			if broken, ok := r.(*wire.Error); ok {
				err = broken
			}
		}
	}()
	f()
	return nil
}

func TestIntegers(t *testing.T) {
	root := Root(message(0, 0), "the root")
	for slot, width := range []int{1, 2, 4, 8} {
		if got, want := root.Integer(slot, width, 9, "a number"), int64(-2-slot); got != want {
			t.Errorf("slot %d is %d, want %d", slot, got, want)
		}
	}
	for _, slot := range []int{5, 7, 8, 1000} {
		if got := root.Integer(slot, 8, 9, "a number"); got != 9 {
			t.Errorf("slot %d is absent and gives %d", slot, got)
		}
	}
}

// TestVectorBounds: a vector may declare as many entries as are in the buffer, and no more.
func TestVectorBounds(t *testing.T) {
	for entries := range 4 {
		for declared := range 40 {
			var v Vector
			err := caught(func() { v = Root(message(entries, declared), "the root").Vector(4, 8, "a vector") })
			var broken *wire.Error
			switch {
			case declared > entries && !errors.As(err, &broken):
				t.Errorf("%d of %d entries: %v, want an error of the wire", declared, entries, err)
			case declared <= entries && err != nil:
				t.Errorf("%d of %d entries: %v", declared, entries, err)
			case declared <= entries && len(v.Bytes()) != 8*declared:
				t.Errorf("%d of %d entries have %d bytes", declared, entries, len(v.Bytes()))
			}
		}
	}
	root := Root(message(1, 1), "the root")
	if v := root.Vector(5, 8, "a vector"); v.Len != 0 || len(v.Bytes()) != 0 {
		t.Errorf("an absent vector has %d entries", v.Len)
	}
	if _, ok := root.Text(5, "a text"); ok {
		t.Error("an absent text is there")
	}
	if text, ok := Root(message(1, 8), "the root").Text(4, "a text"); !ok || len(text) != 8 {
		t.Errorf("a text of 8 bytes has %d, %v", len(text), ok)
	}
}

// TestReadsStayInside cuts the buffer everywhere and changes each of its 16-bit words: a read is a result or an error
// of the wire, never a read outside.
func TestReadsStayInside(t *testing.T) {
	whole := message(2, 2)
	read := func(b []byte) {
		err := caught(func() {
			root := Root(b, "the root")
			for slot := range 8 {
				root.Integer(slot, 8, 0, "a number")
				root.Vector(slot, 8, "a vector").Bytes()
				root.Text(slot, "a text")
				root.Table(slot, "a table")
			}
		})
		var broken *wire.Error
		if err != nil && !errors.As(err, &broken) {
			t.Errorf("%v, for % x", err, b)
		}
	}
	for n := range whole {
		read(whole[:n:n])
	}
	for at := 0; at+2 <= len(whole); at += 2 {
		for _, word := range []uint16{0, 1, 3, 4, 5, 0x7f, 0xff, 0x7fff, 0x8000, 0xffff} {
			b := append([]byte(nil), whole...)
			binary.LittleEndian.PutUint16(b[at:], word)
			read(b)
		}
	}
}
