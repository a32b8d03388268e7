package arrowio

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/number"
	"github.com/embedd/embedd/arrowio/wire"
)

// A column is a feature column of a schema.
type column struct {
	field int // index in the layout
	value int // index of the field with the numbers: the same, or the list's child
	size  int // number of elements, -1 if only the data determine it
	// encoder of a column that holds no numbers; nil: it holds numbers
	encoder *columnEncoder
}

// A plan is a schema with the columns that a Spec or a Contract selects in it.
type plan struct {
	schema      *ipc.Schema
	spec        *Spec
	contract    *Contract // nil: the Spec selects
	columns     []column
	taken       []bool         // fields that are features
	excluded    []string       // columns that "*" does not select in this message
	index       map[string]int // top-level field by name, -1 if two have the name
	varies      bool           // a column has lists whose lengths the data determine
	elements    int
	maxElements int // limit of elements
	label       int // index of the top-level field, -1 = none
	key         int
	labelKind   string // what it holds: text, integers or booleans; "" if label is -1
	keyKind     string

	lastContract atomic.Pointer[lastContract] // the latest one, without a contract
}

// A cachedSchema is a schema and the latest plan for it.
type cachedSchema struct {
	schema *ipc.Schema
	plan   atomic.Pointer[plan]
}

// planOf returns the plan of a schema frame, and the ids of the message's dictionaries in normalised order.
func (d *Decoder) planOf(f *ipc.Frame, c *Contract, excluded []string) (*plan, []int64) {
	known, ids := d.schemaOf(f)
	if len(excluded) > 0 { // the rows decide, so no other message has this plan
		return d.newPlan(known.schema, c, excluded), ids
	}
	if p := known.plan.Load(); p != nil && p.contract == c {
		return p, ids
	}
	p := d.newPlan(known.schema, c, nil)
	known.plan.Store(p)
	return p, ids
}

// withoutVaryingLists decodes a message. A column of lists whose lengths vary is no feature if only "*" selects it and
// the message proposes a contract: the message is decoded again, once, without all such columns.
func (d *Decoder) withoutVaryingLists(decode func(excluded []string) (*Message, error)) (*Message, error) {
	m, err := decode(nil)
	if err != nil || m.varyingLists == nil {
		return m, err
	}
	var excluded []string
	for k := range m.varyingLists {
		excluded = append(excluded, m.plan.schema.Layout.Fields[m.plan.columns[k].field].Name)
	}
	first := m.varyingError
	m.Release()
	if m, err = decode(excluded); err != nil {
		return nil, first
	}
	return m, nil
}

// isOnlyStarred reports whether no entry of the Spec but "*" selects a column.
func (d *Decoder) isOnlyStarred(column string) bool {
	starred := false
	for _, entry := range d.spec.Features {
		if entry == "*" {
			starred = true
		} else if entry == column || isGlob(entry) && d.spec.matches(entry, column) {
			return false
		}
	}
	return starred
}

// newPlan selects the feature columns of a schema. A message that the Spec alone rejects has the same error with and
// without a contract. A message that only the contract rejects is wire.SchemaChanged.
func (d *Decoder) newPlan(s *ipc.Schema, c *Contract, excluded []string) *plan {
	p := &plan{schema: s, spec: &d.spec, contract: c, maxElements: maxFeatures, excluded: excluded}
	if c == nil {
		p.maxElements = d.limits.Features
		p.selectColumns()
		return p
	}
	defer ipc.Annotate(func(e *Error) {
		if aboutFeatures(e) {
			d.newPlan(s, nil, nil)
			changed(e)
		}
	})
	p.selectColumns()
	return p
}

// aboutFeatures reports whether an error concerns the feature columns.
func aboutFeatures(e *Error) bool {
	return e.Code == wire.MissingColumn || e.Code == wire.FeatureCount || e.Code == wire.NotNumeric ||
		e.Code == wire.SchemaChanged
}

// changed returns e as the error of a message that does not fit a contract.
func changed(e *Error) *Error {
	e.Code = wire.SchemaChanged
	return e.WithHint("send the features of the pipeline's schema, or change it: embedd schema reset, or schema.features")
}

func (d *Decoder) schemaOf(f *ipc.Frame) (*cachedSchema, []int64) {
	d.mu.RLock()
	found := d.schemas[len(f.Meta)]
	d.mu.RUnlock()
	for _, known := range found {
		if ids, ok := known.schema.SameAs(f.Meta); ok {
			return known, ids
		}
	}
	s := ipc.ParseSchema(f, d.ipcLimits)
	ids, ok := s.DictionaryIDs(f.Meta)
	if !ok {
		panic(wire.Errorf(wire.Internal, "dictionary numbers could not be read"))
	}
	known := &cachedSchema{schema: s}
	if size := s.Size(); size <= maxPlanBytes {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.count == maxPlans || d.cached+size > maxPlanBytes {
			d.schemas, d.cached, d.count = map[int][]*cachedSchema{}, 0, 0
		}
		// The slice is never written to once it is shared.
		d.schemas[len(s.Bytes)] = append(slices.Clip(d.schemas[len(s.Bytes)]), known)
		d.cached, d.count = d.cached+size, d.count+1
	}
	return known, ids
}

// find returns the top-level column of this name, -1 if there is none.
func (p *plan) find(name string) int {
	i, ok := p.index[name]
	switch {
	case !ok:
		return -1
	case i < 0:
		panic(wire.Errorf(wire.Malformed, "two columns have this name").WithHint("rename one").In(name))
	}
	return i
}

func (p *plan) selectColumns() {
	l := &p.schema.Layout
	p.taken, p.index = make([]bool, len(l.Fields)), make(map[string]int, len(l.Columns))
	for _, i := range l.Columns {
		name := l.Fields[i].Name
		if _, twice := p.index[name]; twice {
			i = -1
		}
		p.index[name] = i
	}
	p.label, p.labelKind = p.findLabelOrKey(p.spec.Label, wire.LabelType)
	p.key, p.keyKind = p.findLabelOrKey(p.spec.Key, wire.KeyType)
	if p.contract != nil {
		p.selectByContract()
		return
	}
	p.selectBySpec()
}

// findLabelOrKey finds the label or key column. A missing column, and one of type null, count as none.
func (p *plan) findLabelOrKey(name string, code wire.Code) (i int, holds string) {
	if name == "" {
		return -1, ""
	}
	if i = p.find(name); i < 0 {
		return -1, ""
	}
	switch p.schema.Layout.Fields[i].Type {
	case ipc.TypeNull:
		return -1, ""
	case ipc.TypeUtf8, ipc.TypeLargeUtf8, ipc.TypeUtf8View:
		holds = "text"
	case ipc.TypeInt:
		holds = "integers"
	case ipc.TypeBool:
		holds = "booleans"
	}
	switch {
	case holds == "" && code == wire.LabelType:
		panic(wire.Errorf(code, "a column of type %s cannot be a label", p.schema.Layout.Describe(i)).WithHint(
			"use a string, dictionary, integer or boolean column").In(name))
	case code == wire.KeyType && (holds == "" || holds == "booleans"):
		panic(wire.Errorf(code, "a column of type %s cannot be a key", p.schema.Layout.Describe(i)).WithHint(
			"use a string or integer column").In(name))
	}
	return i, holds
}

// numeric reports whether a column can be a feature, and returns the field with its numbers and the number of elements.
func (p *plan) numeric(i int) (value, size int, ok bool) {
	fields := p.schema.Layout.Fields
	f := &fields[i]
	if f.Dict >= 0 {
		return 0, 0, false
	}
	switch f.Kind {
	case ipc.KindFixed, ipc.KindBool:
		return i, 1, f.Number != ipc.NotNumber
	case ipc.KindFixedList:
		value, size = i+1, f.Size
	case ipc.KindList, ipc.KindListView:
		value, size = i+1, -1
	default:
		return 0, 0, false
	}
	c := &fields[value]
	return value, size, c.Number != ipc.NotNumber && c.Dict < 0 && f.Type != ipc.TypeMap
}

func (p *plan) add(i int) {
	name := p.schema.Layout.Fields[i].Name
	if len(name) > maxName {
		panic(longName(name))
	}
	value, size, ok := p.numeric(i)
	if !ok {
		panic(wire.Errorf(wire.NotNumeric,
			"a column of type %s holds no numbers: floating point, integers, decimals or booleans",
			p.schema.Layout.Describe(i)).
			WithHint("send numbers (a category as a column of 0 and 1 for each value, a date as days), use a model file that " +
				"embedd fit --categories or --dates wrote, or choose the features by other names").In(name))
	}
	if size == 0 {
		panic(wire.Errorf(wire.FeatureCount, "a list of no elements").WithHint("use 1 to %d features",
			p.maxElements).In(name))
	}
	if p.elements += max(0, size); p.elements > p.maxElements {
		panic(p.tooMany().In(name))
	}
	p.taken[i] = true
	kind := p.schema.Layout.Fields[i].Kind
	p.varies = p.varies || kind == ipc.KindList || kind == ipc.KindListView
	p.columns = append(p.columns, column{field: i, value: value, size: size})
}

func (p *plan) tooMany() *Error {
	return wire.Errorf(wire.TooManyFields, "more than %d features", p.maxElements).WithHint(
		"send fewer, choose fewer columns, or raise limits.features (at most %d)", maxFeatures)
}

// selectBySpec selects the columns that the Spec names.
func (p *plan) selectBySpec() {
	for _, entry := range p.spec.Features {
		i := p.find(entry)
		size := p.spec.Sizes[entry]
		if e := p.spec.encoding(entry); i >= 0 && e != nil {
			if !p.taken[i] {
				p.addEncoded(i, ContractColumn{Name: entry, Values: e.Values, Date: e.Values == nil})
			}
			continue
		}
		if i >= 0 {
			if !p.taken[i] {
				p.add(i)
			}
			if size > 0 {
				k := slices.IndexFunc(p.columns, func(c column) bool { return c.field == i })
				p.expect(&p.columns[k], listOf(size))
			}
			continue
		}
		if !isGlob(entry) || size > 0 {
			panic(p.missing(entry))
		}
		before := len(p.columns)
		for _, i := range p.matching(entry) {
			p.add(i)
		}
		if len(p.columns) == before {
			panic(p.missing(entry))
		}
	}
	p.distinct()
}

// distinct rejects a column of numbers x[0] next to a list x, because their element names would be equal.
func (p *plan) distinct() {
	for _, c := range p.columns {
		name := p.schema.Layout.Fields[c.field].Name
		base, _, ok := elementOf(name)
		if ok && c.value == c.field && p.holdsNumbers(base, true) && p.taken[p.index[base]] {
			panic(wire.Errorf(wire.Malformed, "it has the name of an element of the list %q", wire.Clip(base)).WithHint(
				"rename one, or choose the features by other names").In(name))
		}
	}
}

// matching returns the columns that match a glob and are not taken by an earlier entry.
func (p *plan) matching(glob string) (fields []int) {
	var indexes []string
	if glob == "*" {
		indexes = p.indexColumns()
	}
	for _, i := range p.schema.Layout.Columns {
		name := p.schema.Layout.Fields[i].Name
		if name == p.spec.Label || name == p.spec.Key || !p.spec.matches(glob, name) || p.taken[i] ||
			p.spec.encoding(name) != nil {
			continue
		}
		if _, size, ok := p.numeric(i); glob == "*" && (!ok || size == 0 || slices.Contains(p.excluded, name) ||
			slices.Contains(indexes, name)) {
			continue
		}
		fields = append(fields, p.find(name)) // another column may have the name, and be no number
	}
	return fields
}

// indexColumns returns the columns of the schema that pandas stored as an index, each once: a sender may name millions.
func (p *plan) indexColumns() []string {
	for j := 0; j < p.schema.Pairs.Len; j++ {
		pair := p.schema.Pairs.Table(j, "a metadata entry")
		if key, _ := pair.Text(0, "a metadata text"); string(key) == "pandas" {
			value, _ := pair.Text(1, "a metadata text")
			names := slices.DeleteFunc(IndexColumns(value), func(name string) bool { _, is := p.index[name]; return !is })
			slices.Sort(names)
			return slices.Compact(names)
		}
	}
	return nil
}

func (p *plan) missing(name string) *Error {
	isPattern := strings.ContainsAny(name, "*?[")
	var have []string
	for _, i := range p.schema.Layout.Columns {
		if len(have) == 8 {
			have = append(have, "...")
			break
		}
		one := wire.Clip(p.schema.Layout.Fields[i].Name)
		if isPattern {
			one += " (" + p.schema.Layout.Describe(i) + ")"
		}
		have = append(have, one)
	}
	if isPattern {
		return wire.Errorf(wire.MissingColumn, "no feature column matches; the message has %d: %s",
			len(p.schema.Layout.Columns), strings.Join(have, ", ")).
			WithHint("send columns of numbers, or name other features").In(name)
	}
	return wire.Errorf(wire.MissingColumn, "no such feature column; the message has %d: %s", len(p.schema.Layout.Columns),
		strings.Join(have, ", ")).
		WithHint("send it, or name other features").In(name)
}

// selectByContract selects the columns with the elements of the contract. The elements of a list x may also be columns
// of numbers x[0], x[1] ...
func (p *plan) selectByContract() {
	for _, want := range p.contract.columns {
		if want.isEncoded() {
			i := p.find(want.Name)
			if i < 0 {
				panic(p.missing(want.Name))
			}
			p.addEncoded(i, want)
			continue
		}
		if want.Size > 0 && !p.holdsNumbers(want.Name, true) && p.holdsNumbers(elementName(want.Name, 0), false) {
			for k := range want.Size {
				p.take(elementName(want.Name, k), 0)
			}
			continue
		}
		p.take(want.Name, want.Size)
	}
}

// holdsNumbers reports whether a column holds lists of numbers, or one number a row.
func (p *plan) holdsNumbers(name string, lists bool) bool {
	i, ok := p.index[name]
	if !ok || i < 0 {
		return false
	}
	value, _, ok := p.numeric(i)
	return ok && lists == (value != i)
}

// take adds the column of this name. It must hold lists of size elements, or numbers if size is 0.
func (p *plan) take(name string, size int) {
	i := p.find(name)
	if i < 0 {
		panic(p.missing(name))
	}
	p.add(i)
	p.expect(&p.columns[len(p.columns)-1], size)
}

// expect checks that a column holds lists of size elements, or numbers if size is 0. It sets the size of a column
// whose schema does not give it.
func (p *plan) expect(c *column, size int) {
	name := p.schema.Layout.Fields[c.field].Name
	switch list := c.value != c.field; {
	case list && size == 0:
		panic(wire.Errorf(wire.SchemaChanged, "it holds lists, and one number is expected").WithHint(
			"send one number a row").In(name))
	case !list && size > 0:
		panic(wire.Errorf(wire.SchemaChanged, "it holds one number, and a list of %d is expected", size).WithHint(
			"send a list of %d numbers a row", size).In(name))
	case list && c.size < 0:
		c.size = size
	case list && c.size != size:
		panic(wire.Errorf(wire.FeatureCount, "%d elements, and %d are expected", c.size, size).WithHint(
			"send lists of %d elements", size).In(name))
	}
}

// A lastContract is the contract of the latest message's columns: the next message usually has the same ones.
type lastContract struct {
	columns  []column
	contract *Contract
}

// propose returns the contract of these columns, nil if the length of a list is unknown.
func (p *plan) propose(columns []column) *Contract {
	out := make([]ContractColumn, len(columns))
	for i, c := range columns {
		if c.size < 0 {
			return nil
		}
		fields := p.schema.Layout.Fields
		if c.encoder != nil {
			out[i] = c.encoder.column
			continue
		}
		out[i] = ContractColumn{Name: fields[c.field].Name, Number: fields[c.value].Number.Class()}
		if c.value != c.field {
			out[i].Size = c.size
		}
	}
	if len(out) == 0 {
		return nil
	}
	c, err := newContract(out, p.spec.Label, p.spec.Key)
	if err != nil {
		return nil // not reached: the plan rejects such columns
	}
	return c
}

// A columnEncoder makes the features of the rows of an encoded column.
type columnEncoder struct {
	column  ContractColumn
	places  map[string]int // of the values
	longest int            // value, in bytes
}

func encoderOf(c ContractColumn) *columnEncoder {
	e := &columnEncoder{column: c, places: make(map[string]int, len(c.Values))}
	for k, v := range c.Values {
		e.places[v] = k
	}
	// A column of True, False and maybe is text. Where no row is maybe, it is one of booleans: true and false.
	for k, v := range c.Values {
		if is, ok := number.ParseBool(v); ok {
			if _, given := e.places[strconv.FormatBool(is)]; !given {
				e.places[strconv.FormatBool(is)] = k
			}
		}
	}
	for v := range e.places {
		e.longest = max(e.longest, len(v))
	}
	return e
}

// encodedFeatures returns the number of features of encoded columns, which the length of a text message does not bound.
func (p *plan) encodedFeatures() (n int) {
	for _, c := range p.columns {
		if c.encoder != nil {
			n += c.size
		}
	}
	return n
}

// addEncoded adds an encoded column to the features.
func (p *plan) addEncoded(i int, want ContractColumn) {
	f := &p.schema.Layout.Fields[i]
	isText := f.Type == ipc.TypeUtf8 || f.Type == ipc.TypeLargeUtf8 || f.Type == ipc.TypeUtf8View
	refuse := func(what, hint string) {
		panic(wire.Errorf(wire.NotNumeric, "a column of type %s cannot be a %s", p.schema.Layout.Describe(i),
			what).WithHint("%s", hint).In(f.Name))
	}
	switch {
	case isText || f.Type == ipc.TypeNull:
	case want.Date && (f.Dict >= 0 || f.Type != ipc.TypeDate && f.Type != ipc.TypeTimestamp):
		refuse("date", "send dates or times, or text as 2024-05-01 or 2024-05-01T12:00:00Z")
	case !want.Date && f.Type != ipc.TypeInt && f.Type != ipc.TypeBool:
		refuse("category", "send text, integers or booleans")
	}
	if p.elements += want.len(); p.elements > p.maxElements {
		panic(p.tooMany().In(f.Name))
	}
	p.taken[i] = true
	p.columns = append(p.columns, column{field: i, value: i, size: want.len(), encoder: encoderOf(want)})
}
