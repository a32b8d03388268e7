package arrowio

import (
	"slices"
	"strings"
)

// Takes tells whether the feature elements of a model, in their order, are what the Spec asks for, as far as can be told
// without a message: each is of a column that an entry names, in the order of the entries, and no named column is
// missing. A column with a size has as many elements. A glob may match more columns than a model has.
func (s Spec) Takes(elements []string) bool {
	at, named := 0, map[string]int{}
	for _, element := range elements {
		column, _, list := strings.Cut(element, "[")
		if !list || !strings.HasSuffix(element, "]") {
			column = element
		}
		named[column]++
		if element != column {
			named[element]++
		}
		next := slices.IndexFunc(s.Features[at:], func(entry string) bool {
			return s.matches(entry, element) || s.matches(entry, column)
		})
		if next < 0 || column == s.Label || column == s.Key {
			return false
		}
		at += next
	}
	for _, entry := range s.Features {
		if size := s.Sizes[entry]; size > 0 && named[entry] != size || !isGlob(entry) && named[entry] == 0 {
			return false
		}
	}
	return true
}
