package arrowio

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/wire"
)

// Output configures an Encoder.
type Output struct {
	Column  string // name of the output column; "" means "embedding"
	Columns bool   // write d float32 columns Column_0 ... instead of one fixed_size_list<float32>[d]
	// "none", "all" (default: all columns but the features), or names and globs; a glob never matches a feature
	Keep        []string
	Compression string      // "" or "none", "lz4", "zstd"
	Format      wire.Format // of outputs; "" is Arrow. As CSV an output has d columns
}

// Reduced is a message with the outputs of a model.
type Reduced struct {
	Message *Message
	Dim     int         // d, the columns of Y
	Y       [][]float32 // outputs for each batch: n x d, row-major, for all rows of the batch
	Drop    [][]int     // rows of each batch that are left out, ascending; nil: none
}

// An Encoder writes output messages. It is safe for concurrent use.
type Encoder struct {
	out   Output
	codec *rewrite.Compressor

	mu     sync.Mutex
	forms  map[formKey]*rewrite.Form
	cached int // size of the forms and their plans

	buffers  ipc.Buffers
	memories sync.Pool // of *outputMemory
}

// outputMemory is the memory of an undivided output, without that of the bytes, for a message of one batch.
type outputMemory struct {
	rewrite.Bundle
	parts [1]*rewrite.Part
	part  rewrite.Part
	rows  [1]ipc.Span
}

func (e *Encoder) outputMemory() *outputMemory {
	if o, ok := e.memories.Get().(*outputMemory); ok {
		return o
	}
	return &outputMemory{}
}

// reuse makes the memory of an output available to later outputs. It keeps no reference to the message.
func (e *Encoder) reuse(o *outputMemory) {
	*o = outputMemory{}
	e.memories.Put(o)
}

// Reuse returns the memory of messages that the encoder wrote, for later ones. The caller must not use them afterwards.
func (e *Encoder) Reuse(msgs ...[]byte) { e.buffers.Put(msgs...) }

type formKey struct {
	plan *plan
	dim  int // -1 for the original schema
}

// NewEncoder returns an encoder with this configuration.
func NewEncoder(out Output) (*Encoder, error) {
	out.Column = cmp.Or(out.Column, "embedding")
	for _, k := range out.Keep {
		if _, err := path.Match(k, ""); err != nil || k == "" {
			return nil, wire.Errorf(wire.Internal, "kept columns %q: not a name or glob", k).WithHint(
				"name a column, or close the bracket")
		}
	}
	if out.Format != "" && !slices.Contains(wire.Formats, out.Format) {
		return nil, unknownFormat(out.Format)
	}
	if out.Format.IsText() && out.Compression != "" && out.Compression != "none" {
		return nil, wire.Errorf(wire.Internal, "compression %q is of Arrow buffers, and outputs are %s", out.Compression,
			out.Format).WithHint("set no compression")
	}
	codec, e := rewrite.NewCompressor(out.Compression)
	if e != nil {
		return nil, e
	}
	return &Encoder{out: out, codec: codec, forms: map[formKey]*rewrite.Form{}}, nil
}

// Encode writes one message: the kept columns unchanged, then the output column. meta is added to the schema's metadata
// and replaces pairs of the same key; text has no metadata. The output has the batches of the input, including those
// whose rows are all dropped. The error is always an *Error.
func (e *Encoder) Encode(r Reduced, meta []wire.Pair) (msg []byte, err error) {
	defer rescue(&err)
	if e.out.Format.IsText() {
		return encodeText(e, r), nil
	}
	o := e.outputMemory()
	defer e.reuse(o)
	return e.prepare(r, o).Write(&e.buffers, &o.Bundle, meta, e.codec), nil
}

// Record is Encode for a message of one batch, and returns the output as a record that does not share memory with the
// message. The caller releases it. The error is always an *Error.
func (e *Encoder) Record(r Reduced, meta []wire.Pair) (rec arrow.Record, err error) {
	defer rescue(&err)
	o := e.outputMemory()
	defer e.reuse(o)
	form := e.prepare(r, o)
	if n := len(r.Message.batches); n != 1 {
		return nil, wire.Errorf(wire.Internal, "a message of %d batches is not one record", n).WithHint(
			"encode it, or give records one by one")
	}
	return written(form.Write(&e.buffers, &o.Bundle, meta, nil))[0], nil
}

// written returns the records of a message that this package has written, so that Arrow's reader is safe.
func written(msg []byte) []arrow.Record {
	_, recs, err := Records(msg)
	if err != nil {
		panic(wire.Errorf(wire.Unsupported, "the record cannot be created: %v", err).WithHint(
			"keep fewer columns, or encode the message"))
	}
	return recs
}

// Rejected writes a message of the original schema, including features, with only these rows of each batch and only the
// dictionary entries that they use. Of a text message these are the original bytes of the rows, in its format.
func (e *Encoder) Rejected(m *Message, rows [][]int, meta []wire.Pair) (msg []byte, err error) {
	defer rescue(&err)
	m.mustExist()
	if len(rows) != len(m.batches) {
		return nil, wire.Errorf(wire.Internal, "rows for %d batches, and the message has %d", len(rows), len(m.batches))
	}
	if m.table != nil {
		ascending(rows[0], m.rows)
		return rejectedText(m.table, rows[0]), nil
	}
	form := e.form(m.plan, -1)
	parts := make([]*rewrite.Part, len(m.batches))
	for k, b := range m.batches {
		ascending(rows[k], b.data.Rows)
		var sel []ipc.Span
		for _, row := range rows[k] {
			sel = ipc.JoinSpans(sel, row, row+1)
		}
		parts[k] = form.Part(&b.data, sel, nil, 0)
	}
	g := form.Cut(parts, m.dicts)
	g.Finish()
	return form.Write(&e.buffers, g, meta, e.codec), nil
}

// Arrow returns a message, with all of its columns, as an Arrow IPC stream: a message of text in the types that its
// values have. A row that cannot be read is an error. The error is always an *Error.
func Arrow(m *Message) (msg []byte, err error) {
	defer rescue(&err)
	m.mustExist()
	e, err := NewEncoder(Output{})
	if err != nil {
		return nil, err
	}
	for _, b := range m.batches {
		if len(b.rejected) > 0 {
			f := b.rejected[0]
			return nil, wire.Errorf(f.Code, "row %d: %s", f.Row+1, f.What)
		}
	}
	return e.whole(e.form(m.plan, -1), m), nil
}

// whole writes all rows of a message without outputs.
func (e *Encoder) whole(form *rewrite.Form, m *Message) []byte {
	parts := make([]*rewrite.Part, len(m.batches))
	for k, b := range m.batches {
		parts[k] = form.Part(&b.data, ipc.Without(nil, 0, b.data.Rows, nil), nil, 0)
	}
	whole := form.Whole(parts, m.dicts)
	return form.Write(&e.buffers, &whole, nil, nil)
}

func ascending(rows []int, n int) {
	last := -1
	for _, r := range rows {
		if r <= last || r >= n {
			panic(wire.Errorf(wire.Internal, "row %d after row %d in a batch of %d", r, last, n).WithHint(
				"list rows in ascending order, each once"))
		}
		last = r
	}
}

// check returns an error if the outputs do not fit the message.
func (r *Reduced) check() {
	m := r.Message
	m.mustExist()
	if r.Dim < 1 || r.Dim > maxFeatures || len(r.Y) != len(m.batches) || r.Drop != nil &&
		len(r.Drop) != len(m.batches) {
		panic(wire.Errorf(wire.Internal, "%d dimensions, %d results and %d lists of dropped rows for %d batches", r.Dim,
			len(r.Y), len(r.Drop), len(m.batches)))
	}
	for k, b := range m.batches {
		if len(r.Y[k]) != b.data.Rows*r.Dim {
			panic(wire.Errorf(wire.Internal, "batch %d has %d rows and a result of %d numbers for %d dimensions", k,
				b.data.Rows, len(r.Y[k]), r.Dim))
		}
		if r.Drop != nil {
			ascending(r.Drop[k], b.data.Rows)
		}
	}
}

// drop returns the rows of batch k that are left out.
func (r *Reduced) drop(k int) []int {
	if r.Drop == nil {
		return nil
	}
	return r.Drop[k]
}

// prepare sets the undivided output, and returns its form.
func (e *Encoder) prepare(r Reduced, o *outputMemory) *rewrite.Form {
	r.check()
	form := e.form(r.Message.plan, r.Dim)
	parts := o.parts[:0]
	for k, b := range r.Message.batches {
		p := &o.part
		if k > 0 {
			p = &rewrite.Part{}
		}
		form.Fill(p, &b.data, ipc.Without(o.rows[:0], 0, b.data.Rows, r.drop(k)), r.Y[k], r.Dim)
		parts = append(parts, p)
	}
	o.Bundle = form.Whole(parts, r.Message.dicts)
	return form
}

// form returns the output form of a plan; with dim -1, of the plan's own schema.
func (e *Encoder) form(p *plan, dim int) *rewrite.Form {
	key := formKey{p, dim}
	e.mu.Lock()
	f := e.forms[key]
	e.mu.Unlock()
	if f != nil {
		return f
	}
	var fields []int
	for _, i := range p.schema.Layout.Columns {
		if dim < 0 || e.keeps(p, i) {
			fields = append(fields, i)
		}
	}
	list := dim
	if e.hasColumns() {
		list = 0
	}
	f = rewrite.NewForm(p.schema, fields, e.names(dim), list)
	size := p.schema.Size() + f.CacheSize()
	if size > maxPlanBytes {
		return f
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.forms) >= maxPlans || e.cached+size > maxPlanBytes {
		e.forms, e.cached = map[formKey]*rewrite.Form{}, 0
	}
	e.forms[key] = f
	e.cached += size
	return f
}

// hasColumns reports whether the output has a column for each dimension.
func (e *Encoder) hasColumns() bool { return e.out.Columns || e.out.Format == wire.FormatCSV }

// names returns the names of the output columns.
func (e *Encoder) names(dim int) (names []string) {
	switch {
	case dim < 0:
	case !e.hasColumns():
		names = []string{e.out.Column}
	default:
		for j := 0; j < dim; j++ {
			names = append(names, e.out.Column+"_"+strconv.Itoa(j))
		}
	}
	return names
}

func (e *Encoder) keeps(p *plan, i int) bool {
	name := p.schema.Layout.Fields[i].Name
	if len(e.out.Keep) == 0 {
		return !p.taken[i]
	}
	for _, k := range e.out.Keep {
		switch {
		case k == name:
			return true
		case k == "none" || p.taken[i]:
		case k == "all" || matches(k, name):
			return true
		}
	}
	return false
}

// FromRecords encodes records of one schema as one message. The error is always an *Error.
func FromRecords(schema *arrow.Schema, recs ...arrow.Record) (msg []byte, err error) {
	defer rescue(&err)
	if len(recs) == 1 && slices.ContainsFunc(schema.Fields(), dictionaryOfViews) {
		return fromRecord(recs[0])
	}
	return writeStream(schema, recs...)
}

// dictionaryOfViews reports whether Arrow's writer (v15) writes wrong buffer counts after this column: it carries the
// counts of a dictionary of views over to the batch.
func dictionaryOfViews(f arrow.Field) bool {
	d, ok := f.Type.(*arrow.DictionaryType)
	return ok && (d.ValueType.ID() == arrow.STRING_VIEW || d.ValueType.ID() == arrow.BINARY_VIEW)
}

// fromRecord writes a record as one wire message, without Arrow's own writer.
func fromRecord(rec arrow.Record) ([]byte, error) {
	const most = math.MaxInt32
	d, err := NewDecoder(Spec{Limits: Limits{Body: most, Rows: most, Fields: most, Metadata: most}})
	if err != nil {
		return nil, err
	}
	m, err := d.FromRecord(rec, nil)
	if err != nil {
		return nil, err
	}
	return Arrow(m)
}
