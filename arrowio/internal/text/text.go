// Package text checks UTF-8, with AVX2 where the processor has it. Texts are checked on the hot path, where
// unicode/utf8 takes longer than all other steps unless they are ASCII.
package text

import "unicode/utf8"

// Scan reports whether b is valid UTF-8, and whether it is ASCII.
func Scan(b []byte) (valid, ascii bool) {
	valid, ascii, n := scanBlocks(b)
	if !valid {
		return false, false
	}
	// A character at the end of the blocks may continue behind them.
	for k := n - 1; k >= max(0, n-utf8.UTFMax); k-- {
		if utf8.RuneStart(b[k]) {
			n = k
			break
		}
	}
	for _, x := range b[n:] {
		ascii = ascii && x < utf8.RuneSelf
	}
	return ascii || utf8.Valid(b[n:]), ascii
}

// Valid reports whether b is valid UTF-8.
func Valid(b []byte) bool {
	valid, _ := Scan(b)
	return valid
}
