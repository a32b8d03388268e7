// Package number reads numbers and booleans as people write them in CSV.
package number

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Kind is whether a text is a number in digits.
type Kind uint8

const (
	None    Kind = iota // no number in digits: it may be an infinity
	Integer             // no decimal mark and no exponent
	Decimal
)

// Scan scans a number in digits: a sign, digits with at most one decimal mark, an exponent. exact reports
// whether v is the float64 that is next to it; strconv reads the others.
func Scan(s string, decimal rune) (kind Kind, v float64, exact bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative || len(s) > 0 && s[0] == '+' {
		s = s[1:]
	}
	mantissa, i := readDigits(0, s)
	digits, places := i, 0
	if kind = Integer; i < len(s) && rune(s[i]) == decimal && s[i] < 0x80 {
		kind = Decimal
		mantissa, places = readDigits(mantissa, s[i+1:])
		digits, i = digits+places, i+1+places
	}
	exponent, ok := exponentOf(s[i:])
	if digits == 0 || !ok {
		return None, 0, false
	}
	if i < len(s) {
		kind = Decimal
	}
	if digits > maxDigits { // the mantissa may have overflowed, unless some are zeros in front of it
		front := s[:i-len(strings.TrimLeft(s[:i], "0"+string(decimal)))]
		if digits-strings.Count(front, "0") > maxDigits {
			return kind, 0, false
		}
	}
	if v, exact = scaled(mantissa, exponent-places); negative {
		v = -v
	}
	return kind, v, exact
}

// readDigits appends the digits at the start of a text to those of n, and returns how many there are.
func readDigits(n uint64, s string) (_ uint64, count int) {
	for ; len(s)-count >= 8; count += 8 {
		t := s[count : count+8]
		v := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		const high, zeros = 0xf0f0f0f0f0f0f0f0, 0x3030303030303030
		if v&high != zeros || (v+0x0606060606060606)&high != zeros {
			break
		}
		v -= zeros
		v = v*10 + v>>8 // pairs, in every second byte; then eight digits by two products, after Lemire
		const pairs = 0x000000ff000000ff
		v = (v&pairs*(100+1000000<<32) + v>>16&pairs*(1+10000<<32)) >> 32
		n = 100000000*n + v
	}
	for ; count < len(s); count++ {
		c := s[count] - '0'
		if c > 9 {
			break
		}
		n = 10*n + uint64(c)
	}
	return n, count
}

// maxDigits are the most digits that any uint64 holds.
const maxDigits = 19

// scaled returns the float64 next to mantissa * 10^exponent, if no more than 128 bits are needed for it.
func scaled(mantissa uint64, exponent int) (v float64, ok bool) {
	switch {
	case mantissa < 1<<53 && -22 <= exponent && exponent <= 22:
		// Both are exact, and so is the rounding of one operation (Clinger, How to read floating point numbers accurately,
		// PLDI 1990).
		if exponent < 0 {
			return float64(mantissa) / powers[-exponent], true
		}
		return float64(mantissa) * powers[exponent], true
	case mantissa == 0 || exponent > 0 || exponent < -maxDigits:
		return 0, false
	}
	divisor := uint64(powers[-exponent])
	up, down := bits.LeadingZeros64(mantissa), bits.LeadingZeros64(divisor)
	mantissa, divisor = mantissa<<up, divisor<<down
	quotient, rest := bits.Div64(mantissa>>1, mantissa<<63, divisor) // 63 or 64 bits
	if rest != 0 {
		quotient |= 1 // below the bits of a float64, so that half of the last one is rounded to the right side
	}
	const bias, places = 1023, 52 // of the exponent of a float64
	return float64(quotient) * math.Float64frombits(uint64(bias+down-up-63)<<places), true
}

// powers are the powers of ten that a float64 holds exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// exponentOf reads an exponent such as e-12, 0 for an empty text. Beyond 10,000 the value is only known to be large.
func exponentOf(s string) (exponent int, ok bool) {
	if s == "" {
		return 0, true
	}
	if s[0]|0x20 != 'e' {
		return 0, false
	}
	digits := strings.TrimPrefix(s[1:], "-")
	if len(digits) == len(s)-1 {
		digits = strings.TrimPrefix(digits, "+")
	}
	for i := range len(digits) {
		c := digits[i] - '0'
		if c > 9 {
			return 0, false
		}
		exponent = min(10*exponent+int(c), 10_000)
	}
	if s[1:] != digits && s[1] == '-' {
		exponent = -exponent
	}
	return exponent, digits != ""
}

// FitsInt64 reports whether an Integer in digits fits into an int64.
func FitsInt64(s string) bool {
	if len(s) <= 18 {
		return true
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// Parse reads a decimal number or an infinity. A number beyond float64 is an infinity.
func Parse(s string, decimal rune) (float64, bool) {
	if strings.ContainsAny(s, "xX_") { // Go's hexadecimal floats and digit separators are not CSV numbers
		return 0, false
	}
	if decimal != '.' {
		if strings.Contains(s, ".") {
			return 0, false
		}
		s = strings.Replace(s, string(decimal), ".", 1)
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// ParseBool reads the words for true and false.
func ParseBool(s string) (v, ok bool) {
	switch s {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

var missing = []string{"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"}

// IsMissing reports whether a word means a missing value in a CSV column of numbers or booleans. In a text column only
// the empty text does, because the other words may be names.
func IsMissing(word string) bool { return slices.Contains(missing, word) }
