package tile

import (
	"fmt"
	"math"
)

// Exp computes the exponentials of numbers, a multiple of eight and none above 0, in place: within one or two ulp, and
// 0 below e^-708. It is a polynomial whose steps every processor computes with the same bits (except amd64 without
// FMA), so the bits do not depend on the machine.
func Exp(v []float64) {
	if len(v)%Lanes != 0 {
		panic(fmt.Sprintf("tile: exponentials of %d numbers, which is not a multiple of %d", len(v), Lanes))
	}
	exponentials(v)
}

func expPortable(v []float64) {
	const (
		shift = 3 << 51                     // adding it rounds a number to an integer in the lowest bits
		high  = -6.93147180369123816490e-01 // -ln 2, the part whose last bits are 0
		low   = -1.90821492927058770002e-10 // and the rest of it
	)
	for i, x := range v {
		if x < -708 {
			v[i] = 0
			continue
		}
		t := fma(x, math.Log2E, shift)
		r := fma(t-shift, low, fma(t-shift, high, x)) // within ln 2 / 2
		p := 1.0 / 479001600
		for _, c := range taylor {
			p = fma(p, r, c)
		}
		v[i] = math.Float64frombits(math.Float64bits(p) + math.Float64bits(t)<<52)
	}
}

// taylor are the coefficients of e^r from the eleventh power on, descending.
var taylor = [...]float64{1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
	1.0 / 24, 1.0 / 6, 0.5, 1, 1}
