package narrow

import (
	"encoding/binary"
	"math"
	"testing"
)

// half64 is a binary16 number by its definition.
func half64(bits int) float64 {
	exponent, fraction := bits>>10&0x1f, float64(bits&0x3ff)
	v := math.Ldexp(1024+fraction, exponent-25)
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 0x1f:
		v = math.Inf(1)
		if fraction != 0 {
			v = math.NaN()
		}
	}
	if bits>>15 == 1 {
		v = -v
	}
	return v
}

// values are the numbers of a format and what they are, from independent conversions.
func values(f Format) (raw []byte, want []float64) {
	for i := range 1 << 16 {
		switch f {
		case Int8:
			raw, want = append(raw, byte(i)), append(want, float64(int8(i)))
		case Uint8:
			raw, want = append(raw, byte(i)), append(want, float64(uint8(i)))
		default:
			raw = binary.LittleEndian.AppendUint16(raw, uint16(i))
			switch f {
			case Int16:
				want = append(want, float64(int16(i)))
			case Uint16:
				want = append(want, float64(i))
			default:
				want = append(want, half64(i))
			}
		}
	}
	return raw, want
}

var formats = []Format{Int8, Uint8, Int16, Uint16, Float16}

// Every number of every format is exact, one by one and in runs of any length, whatever the alignment.
func TestWiden(t *testing.T) {
	for _, f := range formats {
		raw, want := values(f)
		for _, length := range []int{1, 7, 8, 9, 15, 16, 63, 64, 1 << 16} {
			dst := make([]float32, length+1)
			moved := append(make([]byte, 1, len(raw)+1), raw...)[1:]
			for from := 0; from+length <= len(want); from += length {
				dst[length] = -7
				f.Widen(dst[:length], moved[from*f.Size():])
				for i, got := range dst[:length] {
					v := want[from+i]
					one := f.At(raw, from+i)
					if v != v && got != got && one != one {
						continue
					}
					if math.Float32bits(got) != math.Float32bits(float32(v)) || math.Float32bits(one) != math.Float32bits(got) {
						t.Fatalf("format %d, number %d of %d: %g, alone %g, want %g", f, i, length, got, one, v)
					}
				}
				if dst[length] != -7 {
					t.Fatalf("format %d: a number after %d was written", f, length)
				}
			}
		}
	}
}

// One number that is not finite is found at every position.
func TestIsFinite(t *testing.T) {
	for n := range 20 {
		raw := make([]byte, 2*n+2)
		for i := range n {
			binary.LittleEndian.PutUint16(raw[2*i:], 0xfbff) // the least finite number
		}
		binary.LittleEndian.PutUint16(raw[2*n:], 0x7c00)
		if !Float16.IsFinite(raw, n) || Float16.IsFinite(raw, n+1) {
			t.Errorf("%d finite numbers and an infinity are told apart wrongly", n)
		}
		for i := range n {
			for _, bad := range []uint16{0x7c00, 0xfc00, 0x7e01} {
				binary.LittleEndian.PutUint16(raw[2*i:], bad)
				if Float16.IsFinite(raw, n) {
					t.Errorf("%#x at %d of %d is finite", bad, i, n)
				}
			}
			binary.LittleEndian.PutUint16(raw[2*i:], 0)
		}
	}
	if !Int16.IsFinite([]byte{0xff, 0x7f}, 1) {
		t.Error("an integer is not finite")
	}
}
