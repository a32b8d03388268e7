package arrowio

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/embedd/embedd/arrowio/wire"
)

// A pin is what is fixed for a pipeline. It is immutable; a Decoder replaces it whole.
type pin struct {
	names  []string // of the feature elements, nil before they are known
	model  bool     // the names came from a model, so that more columns may match the globs
	shapes []shape  // of the feature columns, nil before the first message
	label  class
	key    class
}

// A shape is what is fixed of one feature column.
type shape struct {
	name   string
	list   bool
	size   int
	number number // float64s for all floats, int64s for all integers, decimals or bools
}

// A class is the kind of a label or key.
type class uint8

const (
	unknown class = iota
	text
	integers
	booleans
)

func (c class) String() string {
	return [...]string{"nothing", "text", "integers", "booleans"}[c]
}

// maxFeatures bounds the number of feature elements, m. Names are kept for each.
const maxFeatures = 1 << 16

// maxName bounds the name of a feature column, which each element of a list repeats.
const maxName = 1024

// A column is one feature column of a schema.
type column struct {
	field int // of the layout
	value int // the field that holds the numbers: the same, or the list's child
	size  int // number of its elements, -1 where only the data tell
}

// A plan is a schema with the columns that a Spec and a pin choose in it.
type plan struct {
	schema   *schema
	pin      *pin
	columns  []column
	taken    []bool         // fields that are features
	index    map[string]int // top-level field by name, -1 where two have it
	elements int
	most     int // elements
	label    int // index of the top-level field, -1 = none
	key      int
	labels   class
	keys     class
}

// An entry of the cache holds a schema and its plan under the newest pin.
type entry struct {
	schema *schema
	plan   atomic.Pointer[plan]
}

// planOf returns the plan of a schema frame, and the numbers of the message's dictionaries in normalised order.
func (d *Decoder) planOf(f frame, pin *pin) (*plan, []int64, *Error) {
	en, ids, e := d.entry(f)
	if e != nil {
		return nil, nil, e
	}
	if p := en.plan.Load(); p != nil && p.pin == pin {
		return p, ids, nil
	}
	p := &plan{schema: en.schema, pin: pin, most: d.limits.Features}
	if pin.names != nil {
		p.most = maxFeatures // they are fixed
	}
	if e := p.resolve(&d.spec); e != nil {
		return nil, nil, e
	}
	en.plan.Store(p)
	return p, ids, nil
}

func (d *Decoder) entry(f frame) (*entry, []int64, *Error) {
	d.mu.RLock()
	found := d.plans[len(f.meta)]
	d.mu.RUnlock()
	for _, en := range found {
		if ids, ok := en.schema.sameAs(f.meta); ok {
			return en, ids, nil
		}
	}
	s, e := parseSchema(f, d.limits)
	if e != nil {
		return nil, nil, e
	}
	ids, ok := s.numbers(f.meta)
	if !ok {
		return nil, nil, fault(wire.Internal, "dictionary numbers could not be read")
	}
	en := &entry{schema: s}
	if size := s.size(); size <= maxPlanBytes {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.count == maxPlans || d.cached+size > maxPlanBytes {
			d.plans, d.cached, d.count = map[int][]*entry{}, 0, 0
		}
		// The slice is never written to once it is shared.
		d.plans[len(s.bytes)] = append(slices.Clip(d.plans[len(s.bytes)]), en)
		d.cached, d.count = d.cached+size, d.count+1
	}
	return en, ids, nil
}

// size estimates the bytes that a schema and its plan hold, generously.
func (s *schema) size() int {
	n := len(s.layout.fields)
	for _, d := range s.dicts {
		n += len(d.fields)
	}
	return len(s.bytes) + 512*n
}

// Features returns the names of the feature elements in order: a column's name, or name[0], name[1] ... for a list;
// nil before they are fixed.
func (d *Decoder) Features() []string { return slices.Clone(d.pin.Load().names) }

// M is the number of feature elements, 0 before they are fixed.
func (d *Decoder) M() int { return len(d.pin.Load().names) }

// Pin fixes the feature elements to those of a model. It fails where other names are fixed already.
func (d *Decoder) Pin(names []string) error {
	if len(names) > maxFeatures {
		return fault(wire.TooManyFields, "%d features, and the limit is %d", len(names), maxFeatures).hint(
			"use fewer features")
	}
	for {
		from := d.pin.Load()
		if from.names != nil {
			if slices.Equal(from.names, names) {
				return nil
			}
			return fault(wire.SchemaChanged, "%d features are fixed already and the model has %d, or others",
				len(from.names), len(names)).
				hint("use a model of these features or a new pipeline")
		}
		to := *from
		to.names, to.model, to.shapes = slices.Clone(names), true, nil
		if d.pin.CompareAndSwap(from, &to) {
			return nil
		}
	}
}

// find returns the top-level column of that name, -1 when there is none.
func (p *plan) find(name string) (int, *Error) {
	i, ok := p.index[name]
	switch {
	case !ok:
		return -1, nil
	case i < 0:
		return -1, fault(wire.Malformed, "two columns have this name").hint("rename one").in(name)
	}
	return i, nil
}

func (p *plan) resolve(s *Spec) *Error {
	l := &p.schema.layout
	p.taken, p.index = make([]bool, len(l.fields)), make(map[string]int, len(l.columns))
	for _, i := range l.columns {
		name := l.fields[i].name
		if _, twice := p.index[name]; twice {
			i = -1
		}
		p.index[name] = i
	}
	var e *Error
	if p.label, p.labels, e = p.named(s.Label, wire.LabelType, p.pin.label); e != nil {
		return e
	}
	if p.key, p.keys, e = p.named(s.Key, wire.KeyType, p.pin.key); e != nil {
		return e
	}
	switch {
	case p.pin.shapes != nil:
		e = p.byShape()
	case p.pin.names != nil:
		e = p.byName()
	default:
		return p.bySpec(s)
	}
	if e != nil || p.pin.model {
		return e
	}
	return p.noMore(s)
}

// named resolves the label or the key. An absent column, or one of type null, names nothing.
func (p *plan) named(name string, code wire.Code, fixed class) (int, class, *Error) {
	if name == "" {
		return -1, unknown, nil
	}
	i, e := p.find(name)
	if e != nil || i < 0 {
		return -1, unknown, e
	}
	f := &p.schema.layout.fields[i]
	c := unknown
	switch f.typ {
	case typeNull:
		return -1, unknown, nil
	case typeUtf8, typeLargeUtf8, typeUtf8View:
		c = text
	case typeInt:
		c = integers
	case typeBool:
		c = booleans
	}
	switch {
	case c == unknown && code == wire.LabelType:
		return -1, c, fault(code, "a column of type %s cannot be a label", p.schema.layout.describe(i)).hint(
			"use a string, dictionary, integer or boolean column").in(name)
	case code == wire.KeyType && (c == unknown || c == booleans):
		return -1, c, fault(code, "a column of type %s cannot be a key", p.schema.layout.describe(i)).hint(
			"use a string or integer column").in(name)
	case fixed != unknown && c != fixed:
		return -1, c, fault(wire.SchemaChanged, "it holds %v and earlier messages held %v", c, fixed).hint(
			"keep the type, or use a new pipeline").in(name)
	}
	return i, c, nil
}

// numeric reports how a column can be read as features: the field with the numbers, and the number of elements.
func (p *plan) numeric(i int) (value, size int, ok bool) {
	fields := p.schema.layout.fields
	f := &fields[i]
	if f.dict >= 0 {
		return 0, 0, false
	}
	switch f.kind {
	case kindFixed, kindBool:
		return i, 1, f.number != notNumber
	case kindFixedList:
		value, size = i+1, f.size
	case kindList, kindListView:
		value, size = i+1, -1
	default:
		return 0, 0, false
	}
	c := &fields[value]
	return value, size, c.number != notNumber && c.dict < 0 && f.typ != typeMap
}

func (p *plan) add(i int) *Error {
	name := p.schema.layout.fields[i].name
	if len(name) > maxName {
		return fault(wire.TooLarge, "a feature's name of %d bytes, and the limit is %d", len(name), maxName).hint(
			"send a short name").in(name)
	}
	value, size, ok := p.numeric(i)
	if !ok {
		return fault(wire.NotNumeric,
			"a column of type %s holds no numbers: floating point, integers, decimals or booleans",
			p.schema.layout.describe(i)).
			hint("cast it to float32, or choose the features by other names").in(name)
	}
	if size == 0 {
		return fault(wire.FeatureCount, "a list of no elements").hint("use 1 to %d features", p.most).in(name)
	}
	if p.elements += max(0, size); p.elements > p.most {
		return p.tooMany().in(name)
	}
	p.taken[i] = true
	p.columns = append(p.columns, column{field: i, value: value, size: size})
	return nil
}

func (p *plan) tooMany() *Error {
	return fault(wire.TooManyFields, "more than %d features", p.most).hint(
		"send fewer, choose fewer columns, or raise limits.features (at most %d)", maxFeatures)
}

// bySpec chooses the columns of the first message.
func (p *plan) bySpec(s *Spec) *Error {
	for _, entry := range s.Features {
		i, e := p.find(entry)
		if e != nil {
			return e
		}
		if i >= 0 {
			if !p.taken[i] {
				if e := p.add(i); e != nil {
					return e
				}
			}
			continue
		}
		if !isGlob(entry) {
			return p.missing(entry)
		}
		before := len(p.columns)
		for _, i := range p.matching(entry, s) {
			if e := p.add(i); e != nil {
				return e
			}
		}
		if len(p.columns) == before {
			return p.missing(entry)
		}
	}
	return nil
}

// matching returns the columns that a glob means and no earlier entry took.
func (p *plan) matching(glob string, s *Spec) (fields []int) {
	for _, i := range p.schema.layout.columns {
		name := p.schema.layout.fields[i].name
		if name == s.Label || name == s.Key || !matches(glob, name) || p.taken[i] {
			continue
		}
		if _, _, ok := p.numeric(i); !ok && glob == "*" {
			continue
		}
		fields = append(fields, i)
	}
	return fields
}

// noMore refuses columns that match the features' globs and are not among the features that are fixed.
func (p *plan) noMore(s *Spec) *Error {
	for _, entry := range s.Features {
		if !isGlob(entry) {
			continue
		}
		if more := p.matching(entry, s); len(more) > 0 {
			return fault(wire.SchemaChanged, "it matches the features %q and is not among the %d that are fixed", entry,
				len(p.pin.names)).
				hint("rename it, or use a new pipeline").in(p.schema.layout.fields[more[0]].name)
		}
	}
	return nil
}

func (p *plan) missing(name string) *Error {
	var have []string
	for _, i := range p.schema.layout.columns {
		if len(have) == 8 {
			have = append(have, "...")
			break
		}
		have = append(have, clip(p.schema.layout.fields[i].name))
	}
	return fault(wire.MissingColumn, "no such feature column; the message has %d: %s", len(p.schema.layout.columns),
		strings.Join(have, ", ")).
		hint("send it, or name other features").in(name)
}

// byShape finds the fixed feature columns by name.
func (p *plan) byShape() *Error {
	for _, want := range p.pin.shapes {
		i, e := p.find(want.name)
		if e != nil {
			return e
		}
		if i < 0 {
			return p.missing(want.name)
		}
		if e := p.add(i); e != nil {
			return e
		}
		c := &p.columns[len(p.columns)-1]
		if c.size >= 0 && c.size != want.size {
			return fault(wire.FeatureCount, "%d elements, and %d are fixed", c.size, want.size).hint(
				"send lists of %d elements, or use a new pipeline", want.size).in(want.name)
		}
		if list, n := c.value != i, p.schema.layout.fields[c.value].number.wide(); list != want.list ||
			n != want.number {
			return fault(wire.SchemaChanged, "it holds %s and earlier messages held %s", described(list, n),
				described(want.list, want.number)).
				hint("keep the type, or use a new pipeline").in(want.name)
		}
		p.setSize(want.size)
	}
	return nil
}

// setSize completes the newest column where only the pin tells its size.
func (p *plan) setSize(size int) {
	if c := &p.columns[len(p.columns)-1]; c.size < 0 {
		c.size = size
		p.elements += size
	}
}

// byName finds the columns that hold the elements a model names.
func (p *plan) byName() *Error {
	for k := 0; k < len(p.pin.names); {
		name := p.pin.names[k]
		i, e := p.find(name)
		if e != nil {
			return e
		}
		if i >= 0 {
			if value, size, ok := p.numeric(i); ok && value == i && size == 1 || !ok {
				if e := p.add(i); e != nil {
					return e
				}
				k++
				continue
			}
		}
		base, ok := strings.CutSuffix(name, "[0]")
		if !ok {
			return p.missing(name)
		}
		n := 1
		for k+n < len(p.pin.names) && p.pin.names[k+n] == elementName(base, n) {
			n++
		}
		if i, e = p.find(base); e != nil {
			return e
		}
		if i < 0 {
			return p.missing(base)
		}
		if e := p.add(i); e != nil {
			return e
		}
		c := &p.columns[len(p.columns)-1]
		if c.value == i {
			return fault(wire.SchemaChanged, "it is one number and the model has a list of %d", n).hint(
				"send a list, or use another model").in(base)
		}
		if c.size >= 0 && c.size != n {
			return fault(wire.FeatureCount, "%d elements, and the model has %d", c.size, n).hint(
				"send lists of %d elements, or use another model", n).in(base)
		}
		p.setSize(n)
		k += n
	}
	return nil
}

func elementName(base string, k int) string { return base + "[" + strconv.Itoa(k) + "]" }

// wide is the kind of number that is fixed: all floats are one, and all integers.
func (n number) wide() number {
	switch n {
	case notNumber, decimals, bools:
		return n
	case float16s, float32s, float64s:
		return float64s
	}
	return int64s
}

func described(list bool, n number) string {
	s := map[number]string{float64s: "floats", int64s: "integers", decimals: "decimals", bools: "booleans"}[n]
	if list {
		return "a list of " + s
	}
	return s
}

// pinned returns what is fixed once this message is accepted: from itself when it adds nothing.
func (m *Message) pinned(from *pin) *pin {
	p := m.plan
	var shapes []shape
	var names []string
	if from.shapes == nil && len(p.columns) > 0 {
		columns := p.columns
		if len(m.batches) > 0 {
			columns = m.batches[len(m.batches)-1].columns
		}
		shapes, names = p.shapes(columns)
	}
	if shapes == nil && (from.label != unknown || p.labels == unknown) && (from.key != unknown || p.keys == unknown) {
		return from
	}
	to := *from
	if from.label == unknown {
		to.label = p.labels
	}
	if from.key == unknown {
		to.key = p.keys
	}
	if shapes != nil {
		to.shapes = shapes
		if to.names == nil {
			to.names = names
		}
	}
	return &to
}

// shapes describes the columns; nil where a list's length is not known for want of rows.
func (p *plan) shapes(columns []column) (shapes []shape, names []string) {
	for _, c := range columns {
		f := &p.schema.layout.fields[c.field]
		if c.size < 0 {
			return nil, nil
		}
		s := shape{name: f.name, list: c.value != c.field, size: c.size,
			number: p.schema.layout.fields[c.value].number.wide()}
		shapes = append(shapes, s)
		if !s.list {
			names = append(names, f.name)
			continue
		}
		for k := 0; k < c.size; k++ {
			names = append(names, elementName(f.name, k))
		}
	}
	return shapes, names
}
