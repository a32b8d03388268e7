package moments_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/model/moments"
)

// TestWire: a set equals the one read from its bytes, also after further rows, and invalid bytes are an error.
func TestWire(t *testing.T) {
	for _, perClass := range []bool{false, true} {
		r := rand.New(rand.NewPCG(1, 2))
		some := func(n int) (x []float64, y []int) {
			for range n {
				y = append(y, r.IntN(4)-1)
				for j := range 5 {
					x = append(x, r.NormFloat64()+float64(100*j))
				}
			}
			return x, y
		}
		s := moments.New(5, perClass)
		empty, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := moments.New(1, false).UnmarshalBinary(empty); err != nil {
			t.Errorf("an empty set does not come back: %v", err)
		}
		x, y := some(300)
		if err := s.Add(t.Context(), x, y); err != nil {
			t.Fatal(err)
		}
		b, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		back := moments.New(5, perClass)
		if err := back.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		x, y = some(200)
		for _, set := range []*moments.Set{s, back} {
			if err := set.Add(t.Context(), x, y); err != nil {
				t.Fatal(err)
			}
		}
		one, _ := s.AppendBinary(nil)
		other, _ := back.AppendBinary(nil)
		if !bytes.Equal(one, other) {
			t.Error("a decoded set continues differently")
		}
		for i := range b {
			if err := moments.New(5, perClass).UnmarshalBinary(b[:i]); err == nil {
				t.Fatalf("%d bytes of %d are a set", i, len(b))
			}
			bad := slices.Clone(b)
			bad[i] ^= 0xff
			_ = moments.New(5, perClass).UnmarshalBinary(bad) // numbers may be others
		}
	}
}

// TestWireOverflow: the size of a matrix is checked against the received bytes, also if an int has 32 bits.
func TestWireOverflow(t *testing.T) {
	const m = 1 << 15 // 4 m (m + 1) is 4 m more than 2^32
	b := binary.LittleEndian.AppendUint32(nil, m)
	b = append(b, 0, 1)
	b = append(b, make([]byte, 8*m)...)         // the shift
	b = append(b, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1) // no slots, nothing labelled, one matrix
	b = append(b, make([]byte, 4*m)...)
	if err := moments.New(m, false).UnmarshalBinary(b); err == nil {
		t.Error("a matrix of 4 GiB is read from 128 KiB")
	}
}
