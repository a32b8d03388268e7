package arrowio

import (
	"encoding/binary"
	"path"
	"strings"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// Limits bound what one message may cost. A zero field means the default of DefaultLimits.
type Limits struct {
	Message    int // bytes of a message
	Body       int // bytes of all buffers of a message, decompressed and converted
	Rows       int // rows of a message, all batches together
	Fields     int // fields of a schema, nested ones and dictionary values included
	Depth      int // levels of nesting of a column
	Metadata   int // key/value pairs on the schema or on one field; all together at most Fields more
	Batches    int // record batches of a message
	LabelBytes int // bytes of one label or key
	// Features is the most elements of a row's features, m, at most 65536. What learns from them may take m x m numbers.
	// It does not hold under a Contract, which has as many as it has.
	Features int
}

// DefaultLimits returns the limits that hold unless told otherwise.
func DefaultLimits() Limits {
	return Limits{Message: 8 << 20, Body: 64 << 20, Rows: 100_000, Fields: 4096, Depth: 16, Metadata: 256,
		Batches: 1024, LabelBytes: 1024, Features: maxFeatures}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ v, d *int }{
		{&l.Message, &d.Message}, {&l.Body, &d.Body}, {&l.Rows, &d.Rows}, {&l.Fields, &d.Fields},
		{&l.Depth, &d.Depth}, {&l.Metadata, &d.Metadata}, {&l.Batches, &d.Batches}, {&l.LabelBytes, &d.LabelBytes},
		{&l.Features, &d.Features},
	} {
		if *f.v <= 0 {
			*f.v = *f.d
		}
	}
	l.Features = min(l.Features, maxFeatures)
	return l
}

// read is the part of the limits that concerns the Arrow form.
func (l Limits) read() ipc.Limits {
	return ipc.Limits{Body: l.Body, Rows: l.Rows, Fields: l.Fields, Depth: l.Depth, Metadata: l.Metadata}
}

// Spec says what a Decoder looks for in a message.
type Spec struct {
	// Features are names of columns, or globs on them (as path.Match), concatenated in this order; within a glob in
	// the order of the message's schema. A glob never takes the label or the key. "*" takes every numeric column,
	// booleans and decimals among them; any other glob must match numeric columns only. No features means that every
	// column only passes through.
	Features []string
	Label    string // name of the label column, "" = none
	Key      string // name of the key column, "" = none
	// Sizes fix the number of elements of columns that Features names: 1 is a column of numbers, more a column of lists
	// of so many. An entry of Features that has a size is no glob. See [Spec.Contract].
	Sizes  map[string]int
	Limits Limits
}

func (s Spec) check() error {
	for _, f := range s.Features {
		if f == "" && s.Sizes[f] == 0 {
			return wire.Errorf(wire.Internal, "an empty feature name").WithHint("name a column or a glob")
		}
		if _, err := path.Match(f, ""); err != nil && s.Sizes[f] == 0 {
			return wire.Errorf(wire.Internal, "feature glob %q: %v", f, err).WithHint(
				"close the bracket or escape it with a backslash")
		}
		if f == s.Label || f == s.Key {
			return wire.Errorf(wire.Internal, "column %q is a feature and also the label or the key", f).WithHint(
				"take it out of one")
		}
	}
	named := make(map[string]bool, len(s.Features))
	for _, f := range s.Features {
		named[f] = true
	}
	for name, size := range s.Sizes {
		if !named[name] || size < 1 || size > maxFeatures {
			return wire.Errorf(wire.Internal, "size %d of column %q: want a column among the features, and 1 to %d", size, name,
				maxFeatures).WithHint("mend the size")
		}
	}
	if s.Label != "" && s.Label == s.Key {
		return wire.Errorf(wire.Internal, "column %q is both the label and the key", s.Label).WithHint("name two columns")
	}
	if _, err := s.contract(); err != nil {
		return err
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return wire.Errorf(wire.Unsupported, "this machine is big-endian and features are read in place").WithHint(
			"run on a little-endian machine")
	}
	return nil
}

// Contract returns the contract that the Spec alone fixes, where each entry of Features has a size. ok is false where
// one has none: then the contract depends on messages.
func (s Spec) Contract() (c *Contract, ok bool) {
	c, err := s.contract()
	return c, c != nil && err == nil
}

// Fixed returns the Spec that asks for the feature columns of a contract and no others, as a fixed model does.
func (s Spec) Fixed(c *Contract) Spec {
	s.Features, s.Sizes = make([]string, len(c.columns)), make(map[string]int, len(c.columns))
	for i, x := range c.columns {
		s.Features[i], s.Sizes[x.Name] = x.Name, max(1, x.Size)
	}
	return s
}

func (s Spec) contract() (*Contract, error) {
	columns := make([]ContractColumn, len(s.Features))
	for i, name := range s.Features {
		if s.Sizes[name] == 0 {
			return nil, nil
		}
		columns[i] = ContractColumn{Name: name, Size: listOf(s.Sizes[name])}
	}
	if len(columns) == 0 {
		return nil, nil
	}
	return newContract(columns, s.Label, s.Key)
}

// listOf is the size of a contract's column for one of a Spec, where 1 is a column of numbers.
func listOf(size int) int {
	if size == 1 {
		return 0
	}
	return size
}

// isGlob tells a pattern from a plain name.
func isGlob(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// matches reports whether an entry of Features means the column of this name. An entry with a size is no glob.
func (s *Spec) matches(entry, name string) bool {
	return entry == name || s.Sizes[entry] == 0 && matches(entry, name)
}

// matches reports whether a column's name is meant by an entry: by the name itself first, so that a column called "x[0]"
// can be named, or as a glob.
func matches(entry, name string) bool {
	if entry == name {
		return true
	}
	ok, err := path.Match(entry, name)
	return ok && err == nil
}
