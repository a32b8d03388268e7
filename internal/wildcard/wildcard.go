// Package wildcard compares NATS subjects with the wildcards * and >.
package wildcard

import (
	"fmt"
	"strings"
)

// Overlap tells whether a subject can be in both of two patterns.
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

// Keys counts the tokens of a pattern that stand for any one token. The error says why a stream cannot tell what they are.
func Keys(pattern string) (n int, err error) {
	tokens := strings.Split(pattern, ".")
	for _, t := range tokens {
		if t == "*" {
			n++
		}
	}
	switch {
	case tokens[len(tokens)-1] == ">":
		return n, fmt.Errorf("subject %s ends with >, and the stream cannot tell a key there: write a * for each of its tokens",
			pattern)
	case n == 0:
		return 0, fmt.Errorf("subject %s has no key, which is what stands for a *: read %s.*, and publish each message with its key as the last token",
			pattern, pattern)
	}
	return n, nil
}
