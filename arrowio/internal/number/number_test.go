package number

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestScanPlain: a number in digits is what strconv says it is, and an exact one has the same bits.
func TestScanPlain(t *testing.T) {
	check := func(s string) {
		kind, v, exact := Scan(s, '.')
		want, err := strconv.ParseFloat(s, 64)
		_, isInt := strconv.ParseInt(s, 10, 64)
		hasLetter := strings.ContainsAny(s, "xX_infaINFA") // Go's own forms
		switch {
		case kind == None && err == nil && !hasLetter:
			t.Errorf("%q is %v, and is taken for no number", s, want)
		case kind != None && err != nil && !math.IsInf(want, 0):
			t.Errorf("%q is taken for a number", s)
		case kind != Integer && isInt == nil, kind == Integer && isInt != nil && FitsInt64(s):
			t.Errorf("%q: kind %d, as an Integer: %v", s, kind, isInt)
		case exact && math.Float64bits(v) != math.Float64bits(want):
			t.Errorf("%q is %v, want %v", s, v, want)
		}
	}
	for _, s := range []string{"", "+", "-", ".", "1.", ".5", "-.5e3", "e5", "1e", "1e+", "1e+-2", "1e5", "1E-05", "1.2.3",
		"1e2.5", "1e400", "-1e400", "1e-400", "0", "-0", "007", "9007199254740993", "9007199254740992", "1e22", "1e23",
		"123456789012345678", "1234567890123456789", "18446744073709551616", "99999999999999999999999", "1e99999999999999",
		"0x1p-2", "1_000", "inf", "nan", "1 2", "١", "--1", "+5", "1f", "1e-22", "3e-23", "18446744073709551615e-19",
		"9007199254740993e-1", "90071992547409925e-1", "0.00000000000000000012345678901234567", "9999999999999999999e-19"} {
		check(s)
	}
	r := rand.New(rand.NewPCG(1, 2))
	const runes = "0123456789012345678901234567890123456789.e+-"
	for range 40_000 {
		text := make([]byte, r.IntN(12))
		for i := range text {
			text[i] = runes[r.IntN(len(runes))]
		}
		check(string(text))
		check(fmt.Sprintf("%s0.%0*d", []string{"", "-"}[r.IntN(2)], r.IntN(20), r.Uint64()>>r.IntN(64)))
		check(fmt.Sprint(r.Uint64()>>r.IntN(64), "e-", r.IntN(20)))
		check(strconv.FormatFloat(r.NormFloat64()*math.Pow(10, float64(r.IntN(40)-20)), "efg"[r.IntN(3)], r.IntN(20)-1, 64))
	}
	if kind, v, exact := Scan("-1,25e2", ','); kind != Decimal || v != -125 || !exact {
		t.Errorf("a comma: %d, %v, %v", kind, v, exact)
	}
	if kind, _, _ := Scan("1.25", ','); kind != None {
		t.Error("a point is a number where a comma is the mark")
	}
}

// TestExponentOf: exponents are read up to 10,000, which is more than any number has.
func TestExponentOf(t *testing.T) {
	for text, want := range map[string]int{"": 0, "e0": 0, "e5": 5, "E+12": 12, "e-34": -34, "e9999": 9999,
		"e10000": 10000, "e10001": 10000, "E-99999999999999999999": -10000} {
		if got, ok := exponentOf(text); got != want || !ok {
			t.Errorf("%q is %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"e", "E-", "e+", "f5", "d5", "D5", "%5", "5", "e5x", "e/", "e:", "e--5", "e+-5", "e5-"} {
		if got, ok := exponentOf(text); ok {
			t.Errorf("%q is %d", text, got)
		}
	}
}
