package arrowio

import (
	"math/big"
	"slices"
	"strconv"
)

// decimal is the float64 nearest to a decimal: two's complement, little-endian, times ten to the minus scale. It is the
// number that its text would be read as, so that one value is one feature however a file holds it.
func decimal(b []byte, scale int) float64 {
	const exact = 1 << 53 // a quotient of two numbers that float64 holds exactly is rounded once
	low, fits := int64(le.Uint32(b)), true
	if len(b) == 4 {
		low = int64(int32(low))
	} else {
		low = int64(le.Uint64(b))
		for _, v := range b[8:] {
			fits = fits && int8(v) == int8(low>>63)
		}
	}
	if fits && -exact <= low && low <= exact && 0 <= scale && scale < len(tens) {
		return float64(low) / tens[scale]
	}
	v, _ := strconv.ParseFloat(unscaled(b).String()+"e"+strconv.Itoa(-scale), 64) // beyond float64 is an infinity
	return v
}

// tens are the powers of ten that float64 holds exactly.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
	1e18, 1e19, 1e20, 1e21, 1e22}

func unscaled(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	v := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}
