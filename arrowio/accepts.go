package arrowio

import (
	"slices"
	"strings"
)

// Accepts reports whether a model with these feature elements fits the Spec, as far as this can be decided without a
// message: every element belongs to a column that an entry names, in the order of the entries, every plain name is
// present, and columns with a size have it. A glob may match more columns than the model has.
func (s Spec) Accepts(elements []string) bool {
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
