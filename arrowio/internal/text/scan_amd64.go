//go:build !purego

package text

import "golang.org/x/sys/cpu"

// blocks scans n bytes, a multiple of blockSize. Bit 0 of the result means that they are not UTF-8, bit 1 that they are
// not ASCII. A character that the last bytes begin is not an error.
//
//go:noescape
func blocks(p *byte, n int, t *[tableSize]byte) uint64

const blockSize = 32

// scanBlocks scans the first n bytes of b.
func scanBlocks(b []byte) (valid, ascii bool, n int) {
	n = len(b) &^ (blockSize - 1)
	if n == 0 || !cpu.X86.HasAVX2 {
		return true, true, 0
	}
	flags := blocks(&b[0], n, &tables)
	return flags&1 == 0, flags&2 == 0, n
}

// Errors of two consecutive bytes, by which the tables classify the high and the low half of the first and the high
// half of the second: a pair has the errors that all three have (J. Keiser and D. Lemire, Validating UTF-8 in less than
// one instruction per byte, Software: Practice and Experience 51, 2021).
const (
	tooShort     = 1 << iota // a lead byte, or ASCII, where a continuation must be
	tooLong                  // a continuation after ASCII
	overlong3                // a character of three bytes that needs two
	tooLarge                 // above U+10FFFF
	surrogate                // U+D800 to U+DFFF
	overlong2                // a character of two bytes that needs one
	tooLarge1000             // above U+10FFFF, from a lead byte of F5 on; overlong4 too
	twoConts                 // two continuations, which a lead byte before them must allow
	overlong4    = tooLarge1000
	carry        = tooShort | tooLong | twoConts
)

const tableSize = 80

// tables has the errors by the high half of the first byte, its low half, and the high half of the second byte; then
// the largest bytes that end a block without beginning a character that continues behind it.
var tables = [tableSize]byte{
	tooLong, tooLong, tooLong, tooLong, tooLong, tooLong, tooLong, tooLong,
	twoConts, twoConts, twoConts, twoConts,
	tooShort | overlong2, tooShort, tooShort | overlong3 | surrogate, tooShort | tooLarge | tooLarge1000 | overlong4,

	carry | overlong3 | overlong2 | overlong4, carry | overlong2, carry, carry,
	carry | tooLarge, carry | tooLarge | tooLarge1000, carry | tooLarge | tooLarge1000, carry | tooLarge | tooLarge1000,
	carry | tooLarge | tooLarge1000, carry | tooLarge | tooLarge1000, carry | tooLarge | tooLarge1000,
	carry | tooLarge | tooLarge1000, carry | tooLarge | tooLarge1000, carry | tooLarge | tooLarge1000 | surrogate,
	carry | tooLarge | tooLarge1000, carry | tooLarge | tooLarge1000,

	tooShort, tooShort, tooShort, tooShort, tooShort, tooShort, tooShort, tooShort,
	tooLong | overlong2 | twoConts | overlong3 | tooLarge1000 | overlong4,
	tooLong | overlong2 | twoConts | overlong3 | tooLarge,
	tooLong | overlong2 | twoConts | surrogate | tooLarge,
	tooLong | overlong2 | twoConts | surrogate | tooLarge,
	tooShort, tooShort, tooShort, tooShort,

	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0xdf, 0xbf,
}
