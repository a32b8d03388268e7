package rowtext

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unsafe"

	"github.com/embedd/embedd/arrowio/internal/number"
)

// Float returns the number in the bytes of a cell of kind Number, False, True, Plain or Quoted; a number beyond float64
// is an infinity. isNull reports a CSV field without a value, ok whether it is a number.
func Float(raw []byte, k Kind) (v float64, isNull, ok bool) {
	switch k {
	case False:
		return 0, false, true
	case True:
		return 1, false, true
	case Number:
		return parse(raw), false, true
	case Plain, Quoted:
	default:
		return 0, false, false
	}
	word := unsafe.String(unsafe.SliceData(raw), len(raw)) // it does not outlive the call
	if k == Quoted {
		word = Field(raw, k)
	}
	word = strings.TrimSpace(word)
	kind, v, exact := number.Scan(word, '.')
	switch {
	case exact:
		return v, false, true
	case kind == number.None && number.IsMissing(word):
		return 0, true, true
	}
	if v, ok = number.Parse(word, '.'); ok {
		return v, false, true
	}
	if b, isBool := number.ParseBool(word); isBool && b {
		return 1, false, true
	} else if isBool {
		return 0, false, true
	}
	return 0, false, false
}

// parse returns a JSON number.
func parse(raw []byte) float64 {
	word := unsafe.String(unsafe.SliceData(raw), len(raw)) // it does not outlive the call
	if _, v, exact := number.Scan(word, '.'); exact {
		return v
	}
	v, err := strconv.ParseFloat(word, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		panic("a JSON number that strconv does not read: " + word) // the decoder has checked it
	}
	return v
}

// Count returns the number of elements of a cell of kind Numbers.
func Count(raw []byte) int {
	if len(bytes.Trim(raw[1:len(raw)-1], jsonSpace)) == 0 {
		return 0
	}
	return bytes.Count(raw, []byte{','}) + 1
}

// Floats calls set with the elements of a cell of kind Numbers that are not null.
func Floats(raw []byte, set func(k int, v float64)) {
	at := 1
	for k := 0; ; k++ {
		for raw[at] <= ' ' {
			at++
		}
		lo := at
		for c := raw[at]; c != ',' && c != ']' && c > ' '; c = raw[at] {
			at++
		}
		if lo < at && raw[lo] != 'n' {
			set(k, parse(raw[lo:at]))
		}
		for raw[at] <= ' ' {
			at++
		}
		if raw[at] == ']' {
			return
		}
		at++
	}
}

// IsInteger reports whether a JSON number is written as an integer.
func IsInteger(raw []byte) bool { return !bytes.ContainsAny(raw, ".eE") }
