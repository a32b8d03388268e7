package arrowio

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/embedd/embedd/arrowio/wire"
)

// maxFeatures is the most feature elements, m. A name is kept for each.
const maxFeatures = 1 << 16

// maxName is the maximum number of bytes in a feature column's name. Each element of a list repeats it.
const maxName = 1024

// contractVersion is the version of a contract's JSON form.
const contractVersion = 1

// A Contract is the schema that the messages of a pipeline share: the names of the feature elements in order, the label
// column and the key column. With it [Decoder.Decode] finds features by name, so that every message gives rows of the
// same elements, whatever the order and the number types of its columns.
//
// A Contract is immutable and safe for concurrent use. A nil Contract and the zero value have no features.
type Contract struct {
	columns    []ContractColumn
	label, key string
	size       int // elements

	elements func() []string
	id       func() string
}

// A ContractColumn is a feature column of a [Contract].
type ContractColumn struct {
	Name string `json:"column"`
	// Size is the number of elements of the column's lists, 0 for a column of numbers.
	Size int `json:"size,omitempty"`
	// Number is the class of the numbers in the message that proposed the contract: float, integer, decimal or boolean,
	// or "" if unknown. It is informative: messages may hold numbers of any class.
	Number string `json:"number,omitempty"`
	// Values and Date say that the column holds no numbers, see [Encoding].
	Values []string `json:"values,omitempty"`
	Date   bool     `json:"date,omitempty"`
}

// len returns the number of feature elements of the column.
func (x *ContractColumn) len() int { return max(1, x.Size, len(x.Values)) }

// isEncoded reports whether the column has an [Encoding].
func (x *ContractColumn) isEncoded() bool { return x.Date || len(x.Values) > 0 }

// elements returns the names of the column's feature elements.
func (x *ContractColumn) elements() []string {
	if x.Size == 0 && len(x.Values) == 0 {
		return []string{x.Name}
	}
	names := make([]string, 0, x.len())
	for k := range x.Size {
		names = append(names, elementName(x.Name, k))
	}
	for _, v := range x.Values {
		names = append(names, valueName(x.Name, v))
	}
	return names
}

// NewContract returns the contract with the feature elements of a model, named as in [Contract.Elements]. label and key
// are "" for none; no column has two roles. The error is an *Error.
func NewContract(elements []string, label, key string) (*Contract, error) {
	if len(elements) > maxFeatures {
		return nil, tooManyElements(len(elements))
	}
	columns := make([]ContractColumn, len(elements))
	for i, name := range elements {
		columns[i].Name = name
	}
	return newContract(columns, label, key)
}

// contractForm is the JSON form of a contract.
type contractForm struct {
	Version  int              `json:"version"`
	Features []ContractColumn `json:"features"`
	Label    string           `json:"label,omitempty"`
	Key      string           `json:"key,omitempty"`
}

// ParseContract reads the JSON form of a contract. The error is an *Error.
func ParseContract(text []byte) (*Contract, error) {
	var c contractForm
	const restore = "restore it, or reset it with embedd schema reset"
	if err := json.Unmarshal(text, &struct {
		Version *int `json:"version"`
	}{&c.Version}); err != nil {
		return nil, wire.Errorf(wire.Malformed, "the schema is not JSON: %v", err).WithHint(restore)
	}
	if c.Version != contractVersion {
		return nil, wire.Errorf(wire.Unsupported, "the schema has version %d, and this program reads version %d", c.Version,
			contractVersion).WithHint("upgrade embedd")
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, wire.Errorf(wire.Malformed, "the schema cannot be read: %v", err).WithHint(restore)
	}
	return newContract(c.Features, c.Label, c.Key)
}

// newContract checks and joins columns and returns their contract. It takes ownership of columns.
func newContract(columns []ContractColumn, label, key string) (*Contract, error) {
	c := &Contract{columns: joinElements(columns), label: label, key: key}
	sizes := make(map[string]int, len(c.columns))
	for _, x := range c.columns {
		switch _, twice := sizes[x.Name]; {
		case twice:
			return nil, wire.Errorf(wire.Malformed, "the schema has this feature column twice").WithHint("name it once").In(
				x.Name)
		case x.Name != "" && (x.Name == label || x.Name == key) || label != "" && label == key:
			return nil, wire.Errorf(wire.Malformed, "label %q and key %q are not two columns besides the features", wire.Clip(
				label), wire.Clip(key)).WithHint("give each column one role").In(x.Name)
		case len(x.Name) > maxName:
			return nil, longName(x.Name)
		case !utf8.ValidString(x.Name):
			return nil, wire.Errorf(wire.Malformed, "a feature's name is not UTF-8").WithHint("name columns in UTF-8").In(x.Name)
		case x.Size < 0:
			return nil, wire.Errorf(wire.Malformed, "a feature column with lists of %d elements", x.Size).WithHint(
				"give a size of 1 or more, or none").In(x.Name)
		case x.Size > maxFeatures || c.size+x.len() > maxFeatures:
			return nil, tooManyElements(c.size + x.len())
		case x.isEncoded() && x.Size > 0 || x.Date && len(x.Values) > 0 || len(x.Values) > MaxValues:
			return nil, wire.Errorf(wire.Malformed, "a feature column that is several of a list, a date and a category, or has "+
				"more than %d values", MaxValues).WithHint("fit the model again").In(x.Name)
		case x.Number != "" && !slices.Contains(numberClasses, x.Number):
			return nil, wire.Errorf(wire.Malformed, "a feature column of %q", x.Number).WithHint(
				"use one of %s", strings.Join(numberClasses, ", ")).In(x.Name)
		}
		sizes[x.Name] = x.Size
		c.size += x.len()
	}
	for _, x := range c.columns {
		if base, k, ok := elementOf(x.Name); ok && x.Size == 0 && k < sizes[base] {
			return nil, wire.Errorf(wire.Malformed, "it has the name of an element of the list %q", wire.Clip(base)).WithHint(
				"rename one").In(x.Name)
		}
	}
	for _, x := range c.columns {
		for _, v := range x.Values {
			if _, twice := sizes[valueName(x.Name, v)]; twice {
				return nil, wire.Errorf(wire.Malformed, "a column has the name of the feature %q of this category", wire.Clip(
					valueName(x.Name, v))).WithHint("rename one").In(x.Name)
			}
		}
	}
	if c.size == 0 {
		return nil, wire.Errorf(wire.Malformed, "the schema has no features").WithHint("name at least one")
	}
	c.elements = sync.OnceValue(c.elementNames)
	c.id = sync.OnceValue(c.digest)
	return c, nil
}

// joinElements replaces consecutive columns of numbers x[0], x[1] ... by the list x. The element names of a model do
// not say which of the two they were, so a contract does not distinguish them.
func joinElements(columns []ContractColumn) []ContractColumn {
	out := columns[:0]
	for _, x := range columns {
		base, k, ok := elementOf(x.Name)
		last := len(out) - 1
		switch {
		case !ok || x.Size != 0 || x.isEncoded():
			out = append(out, x)
		case last >= 0 && out[last].Name == base && out[last].Size == k && k > 0:
			out[last].Size++
		case k == 0:
			out = append(out, ContractColumn{Name: base, Size: 1, Number: x.Number})
		default:
			out = append(out, x)
		}
	}
	return out
}

// elementName is the name of an element of a list column.
func elementName(base string, k int) string { return base + "[" + strconv.Itoa(k) + "]" }

// elementOf is the reverse of elementName.
func elementOf(name string) (base string, k int, ok bool) {
	rest, ok := strings.CutSuffix(name, "]")
	at := strings.LastIndexByte(rest, '[')
	if !ok || at < 0 {
		return "", 0, false
	}
	k, err := strconv.Atoi(rest[at+1:])
	base = rest[:at]
	return base, k, err == nil && name == elementName(base, k) && k >= 0
}

func tooManyElements(n int) *Error {
	return wire.Errorf(wire.TooManyFields, "%d features, and the limit is %d", n,
		maxFeatures).WithHint("use fewer features")
}

func longName(name string) *Error {
	return wire.Errorf(wire.TooLarge, "a feature's name of %d bytes, and the limit is %d", len(name), maxName).WithHint(
		"send a short name").In(name)
}

var noContract = Contract{elements: func() []string { return nil }, id: func() string { return "" }}

// orNone returns a contract without features for nil and the zero value.
func (c *Contract) orNone() *Contract {
	if c == nil || c.elements == nil {
		return &noContract
	}
	return c
}

// Columns returns the feature columns in order.
func (c *Contract) Columns() []ContractColumn { return slices.Clone(c.orNone().columns) }

// Elements returns the names of the feature elements in order, as a model has them: a column's name, or name[0],
// name[1] ... for a list.
func (c *Contract) Elements() []string { return slices.Clone(c.orNone().elements()) }

func (c *Contract) elementNames() []string {
	names := make([]string, 0, c.size)
	for _, x := range c.columns {
		names = append(names, x.elements()...)
	}
	return names
}

// Len returns the number of feature elements, m.
func (c *Contract) Len() int { return c.orNone().size }

// Label returns the name of the label column, "" where there is none.
func (c *Contract) Label() string { return c.orNone().label }

// Key returns the name of the key column, "" where there is none.
func (c *Contract) Key() string { return c.orNone().key }

// Equal reports whether two contracts have the same feature elements in the same order, so that rows of one are rows of
// the other. It ignores number classes, label and key.
func (c *Contract) Equal(d *Contract) bool {
	if c == d || c == nil || d == nil {
		return c == d
	}
	return slices.EqualFunc(c.columns, d.columns, func(x, y ContractColumn) bool {
		return x.Name == y.Name && x.Size == y.Size && x.Date == y.Date && slices.Equal(x.Values, y.Values)
	})
}

// Has reports whether the contract has exactly these feature elements in this order.
func (c *Contract) Has(elements []string) bool {
	return c != nil && slices.Equal(c.orNone().elements(), elements)
}

// ID identifies the set of feature columns with 32 hexadecimal digits. It does not depend on the order of columns, on
// number classes, or on label and key. It is "" without a contract.
func (c *Contract) ID() string { return c.orNone().id() }

func (c *Contract) digest() string {
	columns := slices.Clone(c.columns)
	slices.SortFunc(columns, func(x, y ContractColumn) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Size, y.Size))
	})
	var text []byte
	for _, x := range columns {
		text = binary.AppendUvarint(text, uint64(len(x.Name)))
		text = binary.AppendUvarint(append(text, x.Name...), uint64(x.Size))
		if x.isEncoded() {
			text = fmt.Appendf(text, "%q", x.Values)
		}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// MarshalJSON returns the JSON form that [ParseContract] reads.
func (c *Contract) MarshalJSON() ([]byte, error) {
	return json.Marshal(contractForm{contractVersion, c.Columns(), c.Label(), c.Key()})
}

// String returns a one-line description.
func (c *Contract) String() string {
	if c.Len() == 0 {
		return "no features"
	}
	text := fmt.Sprintf("%d features: %s", c.size, c.list(true))
	for _, x := range [...][2]string{{"label", c.label}, {"key", c.key}} {
		if x[1] != "" {
			text += "; " + x[0] + " " + wire.Clip(x[1])
		}
	}
	return text
}

// Short lists the feature columns as "x[64], z". A long list is cut.
func (c *Contract) Short() string {
	if c.Len() == 0 {
		return "no features"
	}
	return c.list(false)
}

func (c *Contract) list(classes bool) string {
	const most = 8 // columns of a list in a message; more are cut
	columns := c.Columns()
	names := make([]string, 0, most)
	for _, x := range columns[:min(len(columns), most)] {
		name := wire.Clip(x.Name)
		switch {
		case x.Size > 0:
			name = elementName(name, x.Size)
		case x.Date:
			name += " (date)"
		case x.isEncoded():
			name += fmt.Sprintf(" (%d categories)", len(x.Values))
		}
		if classes && x.Number != "" {
			name += " " + x.Number
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if len(columns) > most {
		text += fmt.Sprintf(" and %d more columns", len(columns)-most)
	}
	return text
}

// numberClasses are the classes of numbers that a ContractColumn names.
var numberClasses = []string{"float", "integer", "decimal", "boolean"}
