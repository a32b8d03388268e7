package arrowio

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// A decimal becomes the number that its text is parsed as, at every width and scale.
func TestDecimalIsItsText(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		width := []int{4, 8, 16, 32}[rng.IntN(4)]
		digits := map[int]int{4: 9, 8: 18, 16: 38, 32: 76}[width]
		scale := rng.IntN(2*digits+1) - digits
		most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(1+rng.IntN(digits))), nil)
		v := new(big.Int)
		for range 8 {
			v.Add(v.Lsh(v, 32), big.NewInt(int64(rng.Uint32())))
		}
		if v.Mod(v, most); rng.IntN(2) == 0 {
			v.Neg(v)
		}
		two := new(big.Int).Set(v)
		if two.Sign() < 0 {
			two.Add(two, new(big.Int).Lsh(big.NewInt(1), uint(8*width)))
		}
		b := two.FillBytes(make([]byte, width))
		slices.Reverse(b)
		want, err := strconv.ParseFloat(v.String()+"e"+strconv.Itoa(-scale), 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := decimal(b, scale); got != want {
			t.Fatalf("%v at scale %d in %d bytes is %g, want %g", v, scale, width, got, want)
		}
	}
}
