package arrowio

import (
	"bytes"
	"math"
	"path"
	"slices"
	"strconv"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/embedd/embedd/arrowio/wire"
)

// Output says what an Encoder writes.
type Output struct {
	Column      string   // name of the output column; "" means "embedding"
	Columns     bool     // d float32 columns Column_0 ... instead of one fixed_size_list<float32>[d]
	Keep        []string // nil or "all": every column but the features; "none"; else names and globs. A glob never means a feature; its plain name does
	Compression string   // "" or "none", "lz4", "zstd"
}

// Reduced is a message and what a model made of it.
type Reduced struct {
	Message *Message
	Dim     int         // d, the columns of Y
	Y       [][]float32 // for each batch n x d, row after row, with all rows of the batch
	Drop    [][]int     // for each batch the rows to leave out, ascending; nil = none
}

// An Encoder writes output messages. It is safe for concurrent use.
type Encoder struct {
	out   Output
	codec *compressor

	mu     sync.Mutex
	drafts map[draftKey]*draft
	cached int // bytes that the drafts hold, with the plans they belong to

	spare sync.Pool // of *[]byte: the memory of messages that nobody uses any more
}

// Reuse gives back the memory of messages that it wrote, for later ones. Nobody uses them after it.
func (e *Encoder) Reuse(msgs ...[]byte) {
	for _, m := range msgs {
		e.spare.Put(&m)
	}
}

// memory is room for n bytes, and for an eighth more at most: who counts what messages take counts their length.
func (e *Encoder) memory(n int) []byte {
	if m, ok := e.spare.Get().(*[]byte); ok && cap(*m) >= n && cap(*m)-n <= n/8 {
		return (*m)[:0]
	}
	return make([]byte, 0, n)
}

type draftKey struct {
	plan *plan
	dim  int // -1 for the original schema
}

// A draft is what the outputs of one plan have in common.
type draft struct {
	block  *block
	fields []int // the kept top-level fields
	// of a record of theirs and the output, but for the data buffers of views
	nodes, buffers int
	dicts          []int // the dictionaries they need, inner ones first
}

// NewEncoder returns an encoder of that form.
func NewEncoder(out Output) (*Encoder, error) {
	if out.Column == "" {
		out.Column = "embedding"
	}
	for _, k := range out.Keep {
		if _, err := path.Match(k, ""); err != nil || k == "" {
			return nil, fault(wire.Internal, "kept columns %q: not a name or glob", k).hint(
				"name a column, or close the bracket")
		}
	}
	codec, e := newCompressor(out.Compression)
	if e != nil {
		return nil, e
	}
	return &Encoder{out: out, codec: codec, drafts: map[draftKey]*draft{}}, nil
}

// Encode writes one message: the kept columns as they came, then the output column, with meta added to the schema's
// metadata (a pair of the same key is replaced). It has the batches of the input, also where all rows of one were
// dropped. The error is always an *Error.
func (e *Encoder) Encode(r Reduced, meta []wire.Pair) (msg []byte, err error) {
	defer rescue(&err)
	d, parts, fail := e.prepare(r)
	if fail != nil {
		return nil, fail
	}
	msg, fail = e.write(d, &bundle{parts: parts, dicts: d.whole(r.Message)}, meta, e.codec)
	if fail != nil {
		return nil, fail
	}
	return msg, nil
}

// Record is Encode for a message of one batch, as FromRecord makes it, and gives the output as a record: with the
// schema and the metadata of the wire form, in memory of its own. The caller releases it. The error is always an
// *Error.
func (e *Encoder) Record(r Reduced, meta []wire.Pair) (rec arrow.Record, err error) {
	defer rescue(&err)
	if n := len(r.Message.batches); n != 1 {
		return nil, fault(wire.Internal, "a message of %d batches is not one record", n).hint(
			"encode it, or give records one by one")
	}
	d, parts, fail := e.prepare(r)
	if fail != nil {
		return nil, fail
	}
	msg, fail := e.write(d, &bundle{parts: parts, dicts: d.whole(r.Message)}, meta, nil)
	if fail != nil {
		return nil, fail
	}
	// Arrow's reader is safe on what was checked and written here.
	reader, err := ipc.NewReader(bytes.NewReader(msg))
	if err != nil {
		return nil, noRecord(err)
	}
	defer reader.Release()
	if !reader.Next() {
		return nil, noRecord(reader.Err())
	}
	rec = reader.Record()
	rec.Retain()
	return rec, nil
}

func noRecord(err error) *Error {
	return fault(wire.Unsupported, "the record cannot be made: %v", err).hint(
		"keep fewer columns, or encode the message")
}

// Rejected writes a message of the original schema, features included, with only these rows of each batch, and of
// dictionaries the entries that they use.
func (e *Encoder) Rejected(m *Message, rows [][]int, meta []wire.Pair) (msg []byte, err error) {
	defer rescue(&err)
	if len(rows) != len(m.batches) {
		return nil, fault(wire.Internal, "rows for %d batches, and the message has %d", len(rows), len(m.batches))
	}
	d, fail := e.draft(m.plan, -1)
	if fail != nil {
		return nil, fail
	}
	parts := make([]*part, len(m.batches))
	for k, b := range m.batches {
		if fail := ascending(rows[k], b.rows); fail != nil {
			return nil, fail
		}
		var sel []span
		for _, row := range rows[k] {
			sel = join(sel, row, row+1)
		}
		if parts[k], fail = e.part(d, b, sel, nil, 0); fail != nil {
			return nil, fail
		}
	}
	g, fail := newBundle(d, m, parts)
	if fail != nil {
		return nil, fail
	}
	g.finish()
	if msg, fail = e.write(d, g, meta, e.codec); fail != nil {
		return nil, fail
	}
	return msg, nil
}

func ascending(rows []int, n int) *Error {
	last := -1
	for _, r := range rows {
		if r <= last || r >= n {
			return fault(wire.Internal, "row %d after row %d in a batch of %d", r, last, n).hint(
				"list rows in ascending order, each once")
		}
		last = r
	}
	return nil
}

// check refuses a result that does not fit its message.
func (r *Reduced) check() *Error {
	m := r.Message
	if r.Dim < 1 || r.Dim > maxFeatures || len(r.Y) != len(m.batches) || r.Drop != nil &&
		len(r.Drop) != len(m.batches) {
		return fault(wire.Internal, "%d dimensions, %d results and %d lists of dropped rows for %d batches", r.Dim,
			len(r.Y), len(r.Drop), len(m.batches))
	}
	for k, b := range m.batches {
		if len(r.Y[k]) != b.rows*r.Dim {
			return fault(wire.Internal, "batch %d has %d rows and a result of %d numbers for %d dimensions", k, b.rows,
				len(r.Y[k]), r.Dim)
		}
		if r.Drop != nil {
			if e := ascending(r.Drop[k], b.rows); e != nil {
				return e
			}
		}
	}
	return nil
}

// drop returns the rows of batch k to leave out.
func (r *Reduced) drop(k int) []int {
	if r.Drop == nil {
		return nil
	}
	return r.Drop[k]
}

// prepare makes the parts of an undivided output.
func (e *Encoder) prepare(r Reduced) (*draft, []*part, *Error) {
	if fail := r.check(); fail != nil {
		return nil, nil, fail
	}
	d, fail := e.draft(r.Message.plan, r.Dim)
	if fail != nil {
		return nil, nil, fail
	}
	parts := make([]*part, len(r.Message.batches))
	for k, b := range r.Message.batches {
		if parts[k], fail = e.part(d, b, without(0, b.rows, r.drop(k)), r.Y[k], r.Dim); fail != nil {
			return nil, nil, fail
		}
	}
	return d, parts, nil
}

// A part is the selected rows of one batch on their way out.
type part struct {
	record
	batch *Batch

	few struct { // the memory of the record where it has few
		nodes   [8]node
		buffers [12][]byte
	}
}

func (e *Encoder) part(d *draft, b *Batch, sel []span, y []float32, dim int) (*part, *Error) {
	p := &part{batch: b}
	p.rows, p.noting = count(sel), len(d.dicts) > 0
	p.nodes, p.buffers = p.few.nodes[:0], p.few.buffers[:0]
	if d.nodes > cap(p.nodes) || d.buffers > cap(p.buffers) {
		p.nodes, p.buffers = make([]node, 0, d.nodes), make([][]byte, 0, d.buffers)
	}
	for _, i := range d.fields {
		if fail := p.take(&b.chunk, i, sel); fail != nil {
			return nil, fail.in(b.layout.fields[i].name)
		}
	}
	switch {
	case dim == 0:
	case e.out.Columns:
		for _, column := range transpose(y, dim, sel, p.rows) {
			p.node(p.rows, 0)
			p.buffer(nil, asBytes(column, 4))
		}
	default:
		p.node(p.rows, 0)
		p.node(p.rows*dim, 0)
		p.buffer(nil, nil, takeFixed(asBytes(y, 4), 4*dim, sel))
	}
	return p, nil
}

func transpose(y []float32, dim int, sel []span, n int) [][]float32 {
	columns := make([][]float32, dim)
	for j := range columns {
		columns[j] = make([]float32, 0, n)
		for _, s := range sel {
			for row := s.lo; row < s.hi; row++ {
				columns[j] = append(columns[j], y[row*dim+j])
			}
		}
	}
	return columns
}

// draft returns what the outputs of a plan have in common.
func (e *Encoder) draft(p *plan, dim int) (*draft, *Error) {
	key := draftKey{p, dim}
	e.mu.Lock()
	d := e.drafts[key]
	e.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d, fail := e.newDraft(p, dim)
	if fail != nil {
		return nil, fail
	}
	size := p.schema.size() + 3*len(d.block.bytes) + metadataReserve
	if size > maxPlanBytes {
		return d, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.drafts) >= maxPlans || e.cached+size > maxPlanBytes {
		e.drafts, e.cached = map[draftKey]*draft{}, 0
	}
	e.drafts[key] = d
	e.cached += size
	return d, nil
}

func (e *Encoder) newDraft(p *plan, dim int) (*draft, *Error) {
	d := &draft{}
	l := &p.schema.layout
	for _, i := range l.columns {
		if dim < 0 || e.keeps(p, i) {
			d.fields = append(d.fields, i)
		}
	}
	names := e.names(dim)
	d.nodes, d.buffers = len(names)+1, 2*len(names)+1
	for _, i := range d.fields {
		end, last := l.fields[i].end, l.buffers
		if end < len(l.fields) {
			last = l.fields[end].buffer
		}
		d.nodes, d.buffers = d.nodes+end-i, d.buffers+last-l.fields[i].buffer
		if slices.Contains(names, l.fields[i].name) {
			return nil, fault(wire.NameTaken, "a kept column has the name of the output column").
				hint("rename it, name the output column otherwise (output.column), or do not keep it").in(
				l.fields[i].name)
		}
	}
	list := 0
	if !e.out.Columns {
		list = dim
	}
	var fail *Error
	if d.block, fail = newBlock(p.schema, d.fields, func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		return embeddingFields(b, names, list)
	}); fail != nil {
		return nil, fail
	}
	d.dicts = p.schema.needed(d.fields)
	return d, nil
}

// names are the names of the output columns.
func (e *Encoder) names(dim int) (names []string) {
	switch {
	case dim < 0:
	case !e.out.Columns:
		names = []string{e.out.Column}
	default:
		for j := 0; j < dim; j++ {
			names = append(names, e.out.Column+"_"+strconv.Itoa(j))
		}
	}
	return names
}

func (e *Encoder) keeps(p *plan, i int) bool {
	name := p.schema.layout.fields[i].name
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

// needed returns the dictionaries that fields use, directly or in another dictionary. A dictionary's number is above
// those inside it.
func (s *schema) needed(fields []int) (dicts []int) {
	if len(s.dicts) == 0 {
		return nil
	}
	need := make([]bool, len(s.dicts))
	mark := func(fields []field) {
		for _, f := range fields {
			if f.dict >= 0 {
				need[f.dict] = true
			}
		}
	}
	for _, i := range fields {
		mark(s.layout.fields[i:s.layout.fields[i].end])
	}
	for k := len(need) - 1; k >= 0; k-- {
		if need[k] {
			mark(s.dicts[k].fields)
		}
	}
	for k, n := range need {
		if n {
			dicts = append(dicts, k)
		}
	}
	return dicts
}

// size bounds the bytes of a data frame but for a batch's own metadata. It does not depend on compression, so that
// what is made from it depends on the input alone (Invariant 2).
func (r *record) size() int {
	n := 256 + 16*len(r.nodes) + 8*len(r.variadic)
	for _, b := range r.buffers {
		n += 16 + 16 + len(b) // its range, its padding and, compressed, its size before it
	}
	return n
}

func (p *part) size() int { return p.record.size() + p.batch.extra }

// size bounds the bytes of the schema but for the metadata that is added.
func (d *draft) size() int {
	return 256 + len(d.block.bytes) + 4*len(d.block.fields) + 4*len(d.block.pairs)
}

// whole are the dictionaries as they came.
func (d *draft) whole(m *Message) []*record {
	if len(m.batches) == 0 {
		return nil
	}
	dicts := make([]*record, len(d.dicts))
	for k, at := range d.dicts {
		dicts[k] = &record{rows: m.dicts[at].rows}
		dicts[k].whole(&m.dicts[at], 0)
	}
	return dicts
}

// write writes the whole stream.
func (e *Encoder) write(d *draft, g *bundle, meta []wire.Pair, codec *compressor) ([]byte, *Error) {
	n := d.size() + sizeOf(g.parts) + 8
	for _, r := range g.dicts {
		n += r.size()
	}
	for _, p := range meta {
		n += 64 + len(p.Key) + len(p.Value)
	}
	dst := d.block.schemaFrame(e.memory(n), meta)
	var fail *Error
	for k, r := range g.dicts {
		if dst, fail = r.dataFrame(dst, d.dicts[k], nil, codec); fail != nil {
			return nil, fail
		}
	}
	for _, p := range g.parts {
		if dst, fail = d.block.batchFrame(dst, p, codec); fail != nil {
			return nil, fail
		}
	}
	dst = append(dst, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)
	if codec != nil && cap(dst)-len(dst) > len(dst)/8 { // the room was for what is not compressed
		exact := append(e.memory(len(dst)), dst...)
		e.Reuse(dst)
		return exact, nil
	}
	return dst, nil
}

// FromRecords writes records of one schema as one wire message, with Arrow's own writer. The error is always an *Error.
func FromRecords(schema *arrow.Schema, recs ...arrow.Record) (msg []byte, err error) {
	defer rescue(&err)
	if len(recs) == 1 && slices.ContainsFunc(schema.Fields(), dictionaryOfViews) {
		return fromRecord(recs[0])
	}
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(schema))
	for k, r := range recs {
		if err := w.Write(r); err != nil {
			return nil, fault(wire.Internal, "record %d cannot be written: %v", k, err).hint(
				"give records of the schema")
		}
	}
	if err := w.Close(); err != nil {
		return nil, fault(wire.Internal, "the stream cannot be closed: %v", err)
	}
	return buf.Bytes(), nil
}

// dictionaryOfViews tells the columns after which Arrow's writer counts the buffers of views wrongly (v15): it carries
// the counts of a dictionary over to the batch.
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
	e, err := NewEncoder(Output{})
	if err != nil {
		return nil, err
	}
	m, err := d.FromRecord(rec, nil)
	if err != nil {
		return nil, err
	}
	form, fail := e.draft(m.plan, -1)
	if fail != nil {
		return nil, fail
	}
	all, fail := e.part(form, m.batches[0], []span{{0, m.rows}}, nil, 0)
	if fail != nil {
		return nil, fail
	}
	msg, fail := e.write(form, &bundle{parts: []*part{all}, dicts: form.whole(m)}, nil, nil)
	if fail != nil {
		return nil, fail
	}
	return msg, nil
}
