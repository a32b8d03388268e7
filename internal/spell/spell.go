// Package spell measures the distance between two names, for suggestions in errors.
package spell

import (
	"fmt"
	"strings"
)

// Distance counts the letters to insert, delete, change or swap with their neighbour (optimal string alignment), in
// bytes. The distance of cobra is not exported, and the modules for Levenshtein's count a swap as two changes: --dmi
// would not find --dim.
func Distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			d[i][j] = min(change, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// Suggest returns ` (did you mean "near"?)` if one of the names is close to the given one, else "".
func Suggest(given string, names []string) string {
	near := Nearest(given, names)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

// Nearest is the name that is most similar to the given one, in any case of letters, "" if none is
// similar. It is for "did you mean".
func Nearest(given string, names []string) string {
	if len(given) > 64 { // longer than any name; the distance costs the product of the lengths
		return ""
	}
	best, least := "", len(given)/2+1 // more than half of the letters changed: not similar
	for _, name := range names {
		if d := Distance(strings.ToLower(given), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}
