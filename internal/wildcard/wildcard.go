// Package wildcard compares NATS subjects with the wildcards * and >.
package wildcard

import (
	"fmt"
	"slices"
	"strings"
)

// Overlap reports whether a subject can match both patterns.
func Overlap(p, q string) bool {
	a, b := strings.Split(p, "."), strings.Split(q, ".")
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a) || i >= len(b):
			return false
		case a[i] == ">" || b[i] == ">":
			return true
		case a[i] != "*" && b[i] != "*" && a[i] != b[i]:
			return false
		}
	}
	return true
}

// Keys counts the * of a pattern. It is an error if there is none, or if the pattern ends with >: then the tokens of
// the key are not known.
func Keys(pattern string) (n int, err error) {
	tokens := strings.Split(pattern, ".")
	for _, t := range tokens {
		if t == "*" {
			n++
		}
	}
	switch {
	case tokens[len(tokens)-1] == ">":
		return n, fmt.Errorf("subject %s ends with >, and the stream cannot map a key there: write a * for each of its "+
			"tokens", pattern)
	case n == 0:
		return 0, fmt.Errorf("subject %s has no key, which is the token at a *: read %s.*, and publish each message with "+
			"its key as the last token", pattern, pattern)
	}
	return n, nil
}

// Covers reports whether a pattern matches every subject that another pattern matches.
func Covers(pattern, other string) bool {
	for {
		p, morePattern, patternGoesOn := strings.Cut(pattern, ".")
		o, moreOther, otherGoesOn := strings.Cut(other, ".")
		switch {
		case p == ">":
			return true
		case o == ">" || p != "*" && p != o || patternGoesOn != otherGoesOn:
			return false
		case !patternGoesOn:
			return true
		}
		pattern, other = morePattern, moreOther
	}
}

// CoveredBy reports whether one of the patterns covers another.
func CoveredBy(other string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Covers(p, other) })
}
