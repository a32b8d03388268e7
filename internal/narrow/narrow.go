// Package narrow converts numbers of one or two bytes to float32, which holds each of them exactly.
package narrow

import (
	"encoding/binary"
	"math"
)

// Format is the type of a number. Numbers are little-endian, as Arrow stores them.
type Format uint8

const (
	None Format = iota // no number
	Int8
	Uint8
	Int16
	Uint16
	Float16 // IEEE 754 binary16
)

// Size is the number of bytes of a number.
func (f Format) Size() int {
	if f <= Uint8 {
		return 1
	}
	return 2
}

// At is number i of raw.
func (f Format) At(raw []byte, i int) float32 {
	switch f {
	case Int8:
		return float32(int8(raw[i]))
	case Uint8:
		return float32(raw[i])
	}
	v := binary.LittleEndian.Uint16(raw[2*i:])
	switch f {
	case Int16:
		return float32(int16(v))
	case Uint16:
		return float32(v)
	}
	return Half(v)
}

// Half is a binary16 number. Moved to the places of a float32, its exponent is too small by 112, for denormals too.
func Half(v uint16) float32 {
	x := math.Float32frombits(uint32(v&0x7fff)<<13) * 0x1p112
	if v&0x7c00 == 0x7c00 { // infinity, or NaN with its payload
		x = math.Float32frombits(0x7f800000 | uint32(v&0x3ff)<<13)
	}
	return math.Float32frombits(math.Float32bits(x) | uint32(v&0x8000)<<16)
}

// Widen sets dst to the first numbers of raw. Every processor gives the same bits, except the payloads of NaN.
func (f Format) Widen(dst []float32, raw []byte) {
	if len(dst) == 0 {
		return
	}
	_ = raw[len(dst)*f.Size()-1] // loops in assembly do not check bounds
	for i := widen(f, dst, raw); i < len(dst); i++ {
		dst[i] = f.At(raw, i)
	}
}

// IsFinite reports whether the first n numbers of raw are finite.
func (f Format) IsFinite(raw []byte, n int) bool {
	if f != Float16 {
		return true
	}
	// Adding one to an exponent of ones carries into the sign.
	const mask, one = 0x7fff_7fff_7fff_7fff, 0x0400_0400_0400_0400
	raw = raw[:2*n]
	acc := uint64(0)
	for ; len(raw) >= 8; raw = raw[8:] {
		acc |= binary.LittleEndian.Uint64(raw)&mask + one
	}
	for ; len(raw) > 0; raw = raw[2:] {
		acc |= uint64(binary.LittleEndian.Uint16(raw))&mask + 0x0400
	}
	return acc&0x8000_8000_8000_8000 == 0
}
