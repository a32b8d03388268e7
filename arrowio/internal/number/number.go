// Package number reads numbers and booleans as people write them in CSV.
package number

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Kind says whether a text is a number in digits.
type Kind uint8

const (
	None    Kind = iota // no number in digits: it may be an infinity
	Integer             // no decimal mark and no exponent
	Decimal
)

// Scan scans a number in digits: a sign, digits with at most one decimal mark, an exponent. exact reports
// whether v is the float64 that is next to it, which holds for mantissas below 2^53 and exponents up to 22 (Clinger,
// How to read floating point numbers accurately, PLDI 1990); strconv reads the others.
func Scan(s string, decimal rune) (kind Kind, v float64, exact bool) {
	i, digits, places, mantissa := 0, 0, 0, uint64(0)
	negative := len(s) > 0 && s[0] == '-'
	if negative || len(s) > 0 && s[0] == '+' {
		i++
	}
	kind = Integer
	for ; i < len(s); i++ {
		if c := s[i] - '0'; c <= 9 {
			digits++
			mantissa = 10*mantissa + uint64(c)
			if kind == Decimal {
				places++
			}
		} else if rune(s[i]) == decimal && s[i] < 0x80 && kind == Integer {
			kind = Decimal
		} else {
			break
		}
	}
	exponent, ok := exponentOf(s[i:])
	if digits == 0 || !ok {
		return None, 0, false
	}
	if i < len(s) {
		kind = Decimal
	}
	if exponent -= places; digits > 18 || mantissa >= 1<<53 || exponent < -22 || exponent > 22 {
		return kind, 0, false
	}
	if v = float64(mantissa); exponent < 0 {
		v /= powers[-exponent]
	} else {
		v *= powers[exponent]
	}
	if negative {
		v = -v
	}
	return kind, v, true
}

// powers are the powers of ten that a float64 holds exactly.
var powers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// exponentOf reads an exponent such as e-12, 0 for an empty text. Beyond 10,000 it only says that it is large.
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
