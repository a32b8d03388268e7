// Package wildcard compares NATS subjects with the wildcards * and >.
package wildcard

import "strings"

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
