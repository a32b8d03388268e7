package arrowio

import (
	"encoding/binary"
	"path"
	"strings"

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
	// It holds for the message that fixes the features; a model's own are as many as they are.
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

// Spec says what a Decoder looks for in a message.
type Spec struct {
	// Features are names of columns, or globs on them (as path.Match), concatenated in this order; within a glob in
	// the schema order of the first message. A glob never takes the label or the key. "*" takes every numeric column,
	// booleans and decimals among them; any other glob must match numeric columns only. No features means that every
	// column only passes through.
	Features []string
	Label    string // name of the label column, "" = none
	Key      string // name of the key column, "" = none
	// Pinned are the names of the feature elements in order, from a model. With nil the first good message fixes them.
	Pinned []string
	Limits Limits
}

func (s Spec) check() *Error {
	for _, f := range s.Features {
		if f == "" {
			return fault(wire.Internal, "an empty feature name").hint("name a column or a glob")
		}
		if _, err := path.Match(f, ""); err != nil {
			return fault(wire.Internal, "feature glob %q: %v", f, err).hint(
				"close the bracket or escape it with a backslash")
		}
		if f == s.Label || f == s.Key {
			return fault(wire.Internal, "column %q is a feature and also the label or the key", f).hint(
				"take it out of one")
		}
	}
	if s.Label != "" && s.Label == s.Key {
		return fault(wire.Internal, "column %q is both the label and the key", s.Label).hint("name two columns")
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return fault(wire.Unsupported, "this machine is big-endian and features are read in place").hint(
			"run on a little-endian machine")
	}
	return nil
}

// isGlob tells a pattern from a plain name.
func isGlob(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// matches reports whether a column's name is meant by an entry: the name itself first, so that a column called "x[0]"
// can be named.
func matches(entry, name string) bool {
	if entry == name {
		return true
	}
	ok, err := path.Match(entry, name)
	return ok && err == nil
}
