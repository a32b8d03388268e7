package arrowio

import (
	"slices"
	"strings"
)

// Takes tells whether the feature elements of a model, in their order, are what the Spec asks for, as far as can be told
// without a message: each is of a column that an entry names, in the order of the entries, and no named column is
// missing. A glob may match more columns than a model has.
func (s Spec) Takes(elements []string) bool {
	at, named := 0, map[string]bool{}
	for _, element := range elements {
		column, _, list := strings.Cut(element, "[")
		if !list || !strings.HasSuffix(element, "]") {
			column = element
		}
		named[element], named[column] = true, true
		next := slices.IndexFunc(s.Features[at:], func(entry string) bool {
			return matches(entry, element) || matches(entry, column)
		})
		if next < 0 || column == s.Label || column == s.Key {
			return false
		}
		at += next
	}
	for _, entry := range s.Features {
		if !isGlob(entry) && !named[entry] {
			return false
		}
	}
	return true
}
