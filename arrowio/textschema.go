package arrowio

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rowtext"
)

// A textType is the Arrow type that the values of a field have.
type textType uint8

const (
	textNothing  textType = iota // no value: type null
	textNumbers                  // float64
	textBooleans                 // boolean
	textTexts                    // string
	textList                     // fixed_size_list<float64>[size]
	textLists                    // list<float64>: the lengths may vary
	textJSON                     // string: the JSON of values of several types, or nested ones
	textNames                    // string: labels and keys
)

// A textColumn is a column of the batch that a text message becomes.
type textColumn struct {
	name string
	typ  textType
	size int
	at   int // its column in the table, -1 if no row has the field
}

// dataType returns the type of a column.
func (c *textColumn) dataType() arrow.DataType {
	switch c.typ {
	case textNothing:
		return arrow.Null
	case textNumbers:
		return arrow.PrimitiveTypes.Float64
	case textBooleans:
		return arrow.FixedWidthTypes.Boolean
	case textList:
		return arrow.FixedSizeListOf(int32(c.size), arrow.PrimitiveTypes.Float64)
	case textLists:
		return arrow.ListOf(arrow.PrimitiveTypes.Float64)
	}
	return arrow.BinaryTypes.String
}

// A textReader turns text messages into columns.
type textReader struct {
	spec    *Spec
	limits  Limits
	schemas textSchemas
	layouts atomic.Pointer[[]*textLayout] // of the last messages, the latest first
	fillers sync.Pool                     // of *textFiller
}

// A textLayout is the columns that the fields of a message become. The next message usually has the same.
type textLayout struct {
	contract *Contract
	isCSV    bool
	names    []string   // of the fields in their order
	taken    []bool     // fields that are features of the contract
	types    []textType // of the other fields
	columns  []textColumn
	plan     *plan
}

// maxLayouts is how many layouts are remembered, and maxLayoutNames the longest names of one.
const (
	maxLayouts     = 8
	maxLayoutNames = 64 << 10
)

// layoutOf returns the layout of a message with rows that can be read, or without rows.
func layoutOf(d *Decoder, t *rowtext.Table, c *Contract, excluded []string) *textLayout {
	r, isClassified := &d.texts, t.Shape != rowtext.CSV
	known, isByFields := r.layouts.Load(), len(excluded) == 0 // otherwise the rows decide too
	for i := 0; known != nil && isByFields && i < len(*known); i++ {
		l := (*known)[i]
		if !l.hasNames(t, c) {
			continue
		}
		if !isClassified { // the others with these names have the same fields taken
			classify(t, l.taken)
			isClassified = true
		}
		if r.hasTypes(t, l) {
			return l
		}
	}
	l := r.newLayout(t, c)
	f, err := r.schemas.frameOf(l.columns)
	if err != nil {
		panic(err)
	}
	l.plan, _ = d.planOf(&f, c, excluded)
	if isByFields && len(t.Rows) > 0 && l.nameBytes() <= maxLayoutNames {
		next := []*textLayout{l}
		if known != nil {
			next = append(next, (*known)[:min(len(*known), maxLayouts-1)]...)
		}
		r.layouts.Store(&next)
	}
	return l
}

// hasNames reports whether a message has the names of the layout, and rows.
func (l *textLayout) hasNames(t *rowtext.Table, c *Contract) bool {
	if l.contract != c || l.isCSV != (t.Shape == rowtext.CSV) || len(l.names) != len(t.Columns) || len(t.Rows) == 0 {
		return false
	}
	for i, name := range l.names {
		if t.Columns[i].Name != name {
			return false
		}
	}
	return true
}

func (l *textLayout) nameBytes() (n int) {
	for _, name := range l.names {
		n += len(name)
	}
	return n
}

// hasTypes reports whether the fields of a message have the types of a layout with the same names.
func (r *textReader) hasTypes(t *rowtext.Table, l *textLayout) bool {
	for i := range t.Columns {
		if !l.taken[i] && r.typeOf(&t.Columns[i], l.isCSV) != l.types[i] {
			return false
		}
	}
	return true
}

// newLayout returns the layout of a message without its plan: first the features of the contract in its order, then
// the other fields as they appear. Without a contract all are in the order of their names, since fields of an object
// have no order.
func (r *textReader) newLayout(t *rowtext.Table, c *Contract) *textLayout {
	n := len(t.Columns)
	l := &textLayout{contract: c, isCSV: t.Shape == rowtext.CSV, names: make([]string, n), taken: make([]bool, n),
		types: make([]textType, n), columns: make([]textColumn, 0, n)}
	if c != nil {
		l.columns = contractColumns(l.columns, l.taken, t, c)
	}
	if l.isCSV {
		classify(t, l.taken)
	}
	for i := range t.Columns {
		l.names[i] = t.Columns[i].Name
		if !l.taken[i] {
			l.types[i] = r.typeOf(&t.Columns[i], l.isCSV)
			l.columns = append(l.columns, textColumn{name: l.names[i], at: i, typ: l.types[i]})
		}
	}
	if c == nil {
		slices.SortFunc(l.columns, func(a, b textColumn) int { return strings.Compare(a.name, b.name) })
	}
	return l
}

// contractColumns appends the feature columns of a contract and marks them. A feature that no row has is null in all
// rows, unless the message has none of the features: then it has another schema.
func contractColumns(columns []textColumn, taken []bool, t *rowtext.Table, c *Contract) []textColumn {
	var at map[string]int
	next := 0 // fields are in the order of the contract, usually, with others between them
	find := func(name string) int {
		for k := next; k < min(next+4, len(t.Columns)); k++ {
			if t.Columns[k].Name == name {
				next = k + 1
				return k
			}
		}
		if at == nil {
			at = make(map[string]int, len(t.Columns))
			for i := range t.Columns {
				at[t.Columns[i].Name] = i
			}
		}
		if i, ok := at[name]; ok {
			return i
		}
		return -1
	}
	hasAny := len(t.Rows) == 0
	add := func(name string, typ textType, size int) {
		i := find(name)
		if i >= 0 {
			taken[i], hasAny = true, true
		}
		columns = append(columns, textColumn{name, typ, size, i})
	}
	for _, want := range c.columns {
		switch {
		case want.isEncoded() && find(want.Name) < 0:
			columns = append(columns, textColumn{name: want.Name, typ: textNothing, at: -1})
		case want.isEncoded():
			add(want.Name, textNames, 0)
		case want.Size == 0:
			add(want.Name, textNumbers, 0)
		case find(want.Name) < 0 && find(elementName(want.Name, 0)) >= 0:
			for k := range want.Size {
				add(elementName(want.Name, k), textNumbers, 0)
			}
		default:
			add(want.Name, textList, want.Size)
		}
	}
	if !hasAny {
		return columns[:0]
	}
	return columns
}

// typeOf returns the type of a field that is no feature of a contract.
func (r *textReader) typeOf(c *rowtext.Column, isCSV bool) textType {
	switch name, k := c.Name, c.Kinds; {
	case name != "" && (name == r.spec.Label || name == r.spec.Key || r.spec.encoding(name) != nil):
		return textNames
	case k.Only():
		return textNothing
	case k.Only(rowtext.Number), k.Has(rowtext.Number) && r.isNamed(name):
		return textNumbers
	case k.Only(rowtext.True, rowtext.False):
		return textBooleans
	case k.Only(rowtext.String), isCSV:
		return textTexts
	case k.Only(rowtext.Numbers), k.Has(rowtext.Numbers) && r.isNamed(name):
		return textLists
	}
	return textJSON
}

// isNamed reports whether an entry of the Spec other than "*" selects a column: it is a feature then, and values that
// are no numbers are faults of their rows.
func (r *textReader) isNamed(name string) bool {
	return slices.ContainsFunc(r.spec.Features, func(entry string) bool {
		return entry != "*" && r.spec.matches(entry, name)
	})
}

// classify sets the kinds of the columns of CSV to what the texts of their fields are. Those that are taken have none.
func classify(t *rowtext.Table, taken []bool) {
	for i := range t.Columns {
		t.Columns[i].Kinds = 0
	}
	for j := range t.Cells {
		if c := &t.Cells[j]; !taken[c.Column] {
			t.Columns[c.Column].Kinds |= 1 << rowtext.FieldKind(t.Bytes(c))
		}
	}
}

// textSchemas caches the schemas of text messages.
type textSchemas struct {
	mu    sync.RWMutex
	known map[string]ipc.Frame
	bytes int
}

// frameOf returns the schema of these columns as a frame.
func (s *textSchemas) frameOf(columns []textColumn) (ipc.Frame, error) {
	key := make([]byte, 0, 16*len(columns))
	for i := range columns {
		c := &columns[i]
		key = binary.AppendUvarint(append(key, byte(c.typ)), uint64(c.size))
		key = append(binary.AppendUvarint(key, uint64(len(c.name))), c.name...)
	}
	s.mu.RLock()
	known, ok := s.known[string(key)]
	s.mu.RUnlock()
	if ok {
		return known, nil
	}
	fields := make([]arrow.Field, len(columns))
	for i := range columns {
		fields[i] = arrow.Field{Name: columns[i].name, Type: columns[i].dataType(), Nullable: true}
	}
	made, err := schemaFrameOf(arrow.NewSchema(fields, nil))
	if err != nil {
		return ipc.Frame{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size := len(made.frame.Meta) + len(key); size <= maxPlanBytes {
		if s.bytes += size; s.known == nil || len(s.known) >= maxPlans || s.bytes > maxPlanBytes {
			s.known, s.bytes = map[string]ipc.Frame{}, size
		}
		s.known[string(key)] = made.frame
	}
	return made.frame, nil
}
