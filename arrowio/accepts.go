package arrowio

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/embedd/embedd/arrowio/wire"
)

// Accepts reports whether a model with these feature elements fits the Spec, as far as this can be decided without a
// message: every element belongs to a column that an entry names, in the order of the entries, every plain name is
// present, and columns with a size have it. A glob may match more columns than the model has.
func (s Spec) Accepts(elements []string) bool { return s.mismatch(elements, true) == "" }

// ContractOf returns the contract under which the messages of this Spec are read for a fixed model with these feature
// elements:
//   - that of the elements, if Features is empty or names them, in any order;
//   - that of Features, if it is one column of lists whose size is the number of elements. Elements of a list have no
//     names, so they are those of the model in its order.
//
// Otherwise the error names what differs.
func (s Spec) ContractOf(elements []string) (*Contract, error) {
	if len(s.Features) == 1 && len(elements) > 1 && s.Sizes[s.Features[0]] == len(elements) {
		return s.contract()
	}
	if len(s.Features) > 0 {
		if what := s.mismatch(elements, false); what != "" {
			return nil, errors.New(what)
		}
	}
	if len(s.Encodings) == 0 {
		return NewContract(elements, s.Label, s.Key)
	}
	columns, err := s.columnsOf(elements)
	if err != nil {
		return nil, err
	}
	return newContract(columns, s.Label, s.Key)
}

// mismatch describes how the feature elements of a model differ from those of Features, "" if they do not.
func (s Spec) mismatch(elements []string, isOrdered bool) string {
	at, named := 0, map[string]int{}
	for _, element := range elements {
		column, _, list := strings.Cut(element, "[")
		if !list || !strings.HasSuffix(element, "]") {
			column = element
		}
		if encoded := s.encodedColumn(element); encoded != element {
			column = encoded
		}
		named[column]++
		if element != column {
			named[element]++
		}
		next := slices.IndexFunc(s.Features[at:], func(entry string) bool {
			return s.matches(entry, element) || s.matches(entry, column)
		})
		switch {
		case column == s.Label || column == s.Key:
			return fmt.Sprintf("its feature %q is the label or the key", wire.Clip(column))
		case next < 0:
			return fmt.Sprintf("its feature %q is in no entry", wire.Clip(element))
		case isOrdered:
			at += next
		}
	}
	for _, entry := range s.Features {
		switch size := s.Sizes[entry]; {
		case !isGlob(entry) && named[entry] == 0:
			return fmt.Sprintf("%q is not a feature of it", wire.Clip(entry))
		case size > 0 && named[entry] != size:
			return fmt.Sprintf("%q has size %d, and the model has %d elements of it", wire.Clip(entry), size, named[entry])
		}
	}
	return ""
}

// encodedColumn returns the encoded column that a feature element is of, and otherwise the element.
func (s *Spec) encodedColumn(element string) string {
	for _, e := range s.Encodings {
		if value, ok := strings.CutPrefix(element, valueName(e.Column, "")); ok && slices.Contains(e.Values, value) {
			return e.Column
		}
	}
	return element
}

// columnsOf returns the columns of feature elements. The elements of a category must follow each other.
func (s *Spec) columnsOf(elements []string) ([]ContractColumn, error) {
	columns := make([]ContractColumn, 0, len(elements))
	for i := 0; i < len(elements); i++ {
		name := s.encodedColumn(elements[i])
		e := s.encoding(name)
		switch {
		case e == nil:
			columns = append(columns, ContractColumn{Name: elements[i]})
			continue
		case e.Values == nil:
			columns = append(columns, ContractColumn{Name: name, Date: true})
			continue
		}
		column := ContractColumn{Name: name, Values: e.Values}
		want := column.elements()
		if len(elements)-i < len(want) || !slices.Equal(elements[i:i+len(want)], want) {
			return nil, wire.Errorf(wire.Malformed, "the features of a category do not follow each other").WithHint(
				"fit the model again").In(name)
		}
		columns = append(columns, column)
		i += len(want) - 1
	}
	return columns, nil
}
