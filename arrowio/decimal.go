package arrowio

import (
	"encoding/binary"
	"math/bits"
	"strconv"

	"github.com/embedd/embedd/arrowio/internal/ipc"
)

var le = binary.LittleEndian

// decimal returns the float64 nearest to a decimal: a little-endian two's complement integer times 10^-scale. Parsing
// the decimal's text gives the same number, so a value is the same feature in every file format.
func decimal(b []byte, scale int) float64 {
	limbs, isNegative := ipc.Magnitude(b)
	const exact = 1 << 53 // division rounds once when both numbers are exact
	var v float64
	if limbs[1]|limbs[2]|limbs[3] == 0 && limbs[0] <= exact && 0 <= scale && scale < len(tens) {
		v = float64(limbs[0]) / tens[scale]
	} else {
		text := append(digits(limbs), 'e')
		// A number beyond float64 becomes an infinity.
		v, _ = strconv.ParseFloat(string(strconv.AppendInt(text, int64(-scale), 10)), 64)
	}
	if isNegative {
		return -v
	}
	return v
}

// tens are the powers of ten that float64 holds exactly.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// digits returns the decimal digits of a number, 19 at a time, so that the cost of a message does not depend on the
// values of its decimals.
func digits(limbs [4]uint64) []byte {
	const chunk, width = 1e19, 19 // the largest power of ten in 64 bits, and its zeros
	var text [5 * width]byte      // 2^255 has 77
	at := len(text)
	for limbs != [4]uint64{} {
		rest := uint64(0)
		for i := len(limbs) - 1; i >= 0; i-- {
			limbs[i], rest = bits.Div64(rest, limbs[i], chunk)
		}
		for range width {
			at--
			text[at] = '0' + byte(rest%10)
			rest /= 10
		}
	}
	if at == len(text) {
		return []byte("0")
	}
	return append(make([]byte, 0, len(text)+8), text[at:]...)
}
