package arrowio

import (
	"encoding/binary"
	"path"
	"slices"
	"strings"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// Limits limit the resources of one message. A field that is not positive means its value in DefaultLimits.
type Limits struct {
	Message    int // bytes of a message
	Body       int // bytes of all buffers, decompressed and converted
	Rows       int // rows of all batches of a message
	Fields     int // fields of a schema, nested ones and dictionary values included
	Depth      int // levels of nesting of a column
	Metadata   int // key/value pairs on the schema or on one field; in total at most Fields more
	Batches    int // record batches of a message
	LabelBytes int // bytes of one label or key
	// Features is the maximum number of feature elements, m, at most 65536. Training may need m x m numbers. It is not
	// checked for a message that is decoded with a Contract.
	Features int
}

// DefaultLimits returns the default limits.
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

// forIPC returns the limits that concern the Arrow format.
func (l Limits) forIPC() ipc.Limits {
	return ipc.Limits{Body: l.Body, Rows: l.Rows, Fields: l.Fields, Depth: l.Depth, Metadata: l.Metadata}
}

// Spec names the columns of a message that are features, label and key.
type Spec struct {
	// Features are column names or globs (as in path.Match), concatenated in this order; columns that match a glob are
	// in the order of the message's schema. A glob never matches the label or the key. "*" selects every numeric
	// column, but no lists whose lengths vary in a message; every other glob must match numeric columns only. Without
	// Features all columns pass through.
	Features []string
	Label    string // label column, "" for none
	Key      string // key column, "" for none
	// Sizes fixes the number of elements of columns in Features: 1 for a column of numbers, n for a column of lists of
	// n. An entry of Features with a size is a literal name. See [Spec.Contract].
	Sizes map[string]int
	// Encodings are those of columns without numbers. An entry of Features selects such a column only by its literal
	// name, never as a glob.
	Encodings []Encoding
	Format    wire.Format // of messages; "" is Arrow
	Limits    Limits
}

func (s Spec) check() error {
	if s.Format != "" && !slices.Contains(wire.Formats, s.Format) {
		return unknownFormat(s.Format)
	}
	for _, f := range s.Features {
		if f == "" && s.Sizes[f] == 0 {
			return wire.Errorf(wire.Internal, "an empty feature name").WithHint("name a column or a glob")
		}
		if _, err := path.Match(f, ""); err != nil && !s.isLiteral(f) {
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
				maxFeatures).WithHint("correct the size")
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

func unknownFormat(f wire.Format) error {
	return wire.Errorf(wire.Internal, "format %q is unknown", f).WithHint("use one of %v", wire.Formats)
}

// Contract returns the contract if every entry of Features has a size. Otherwise ok is false and the contract depends
// on the messages.
func (s Spec) Contract() (c *Contract, ok bool) {
	c, err := s.contract()
	return c, c != nil && err == nil
}

// Fixed returns s with exactly the feature columns of a contract, for a fixed model.
func (s Spec) Fixed(c *Contract) Spec {
	columns := c.Columns()
	s.Features, s.Sizes = make([]string, len(columns)), make(map[string]int, len(columns))
	for i, x := range columns {
		if s.Features[i] = x.Name; !x.isEncoded() {
			s.Sizes[x.Name] = max(1, x.Size)
		}
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

// listOf converts a size in a Spec, where 1 is a column of numbers, to one in a ContractColumn.
func listOf(size int) int {
	if size == 1 {
		return 0
	}
	return size
}

// isGlob reports whether an entry of Features has a wildcard.
func isGlob(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// isLiteral reports whether an entry of Features is a name and no glob: it has a size or an encoding.
func (s *Spec) isLiteral(entry string) bool { return s.Sizes[entry] > 0 || s.encoding(entry) != nil }

// matches reports whether an entry of Features selects the column of this name.
func (s *Spec) matches(entry, name string) bool {
	return entry == name || !s.isLiteral(entry) && matches(entry, name)
}

// matches reports whether an entry is the name of a column or a glob that matches it. The name comes first, so that an
// entry "x[0]" selects a column of that name.
func matches(entry, name string) bool {
	if entry == name {
		return true
	}
	ok, err := path.Match(entry, name)
	return ok && err == nil
}

// encoding returns the encoding of a column, nil if it has none.
func (s *Spec) encoding(column string) *Encoding {
	for i := range s.Encodings {
		if s.Encodings[i].Column == column {
			return &s.Encodings[i]
		}
	}
	return nil
}
