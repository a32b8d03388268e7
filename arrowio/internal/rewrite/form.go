package rewrite

import (
	"slices"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// metadataReserve is the size that a part reserves for additional metadata. It is fixed, because split points must not
// depend on that metadata (Invariant 2).
const metadataReserve = 4096

// A Form is what the outputs of one schema have in common: kept columns of the input, and additional float32 columns.
// It is immutable and safe for concurrent use.
type Form struct {
	block   *block
	fields  []int // the kept top-level fields
	columns bool  // the output has a column for each dimension
	dicts   []int // dictionaries of the fields, each after those that it uses
	// capacity of a record of the fields and the output, without data buffers of views
	nodes, buffers int
}

// NewForm returns the form of outputs with these top-level fields of a schema, followed by columns with these names: of
// lists of list float32 each, or of float32 if list is 0.
func NewForm(s *ipc.Schema, fields []int, names []string, list int) *Form {
	l := &s.Layout
	f := &Form{fields: fields, columns: list == 0, nodes: len(names) + 1, buffers: 2*len(names) + 1}
	for _, i := range fields {
		end, last := l.Fields[i].End, l.Buffers
		if end < len(l.Fields) {
			last = l.Fields[end].Buffer
		}
		f.nodes, f.buffers = f.nodes+end-i, f.buffers+last-l.Fields[i].Buffer
		if slices.Contains(names, l.Fields[i].Name) {
			panic(wire.Errorf(wire.NameTaken, "a kept column has the name of the output column").
				WithHint("rename it, set another output.column, or do not keep it").In(
				l.Fields[i].Name))
		}
	}
	f.block = newBlock(s, fields, func(b *flatbuffers.Builder) []flatbuffers.UOffsetT {
		return embeddingFields(b, names, list)
	})
	f.dicts = s.Needed(fields)
	return f
}

// SchemaSize returns the maximum size of the schema frame without additional metadata.
func (f *Form) SchemaSize() int {
	return 256 + len(f.block.bytes) + 4*len(f.block.fields) + 4*len(f.block.pairs)
}

// CacheSize returns the maximum memory of the form.
func (f *Form) CacheSize() int { return 3*len(f.block.bytes) + metadataReserve }

// BodyLimit returns the maximum size of the data frames of a message of at most limit bytes. A small limit reserves a
// quarter for metadata.
func (f *Form) BodyLimit(limit int) int {
	return limit - min(metadataReserve, limit/4) - f.SchemaSize() - len(endOfStream)
}

// endOfStream is the mark at the end of a stream.
const endOfStream = "\xff\xff\xff\xff\x00\x00\x00\x00"

// A Part is the selected rows of a batch in an output.
type Part struct {
	Record
	Batch *ipc.Batch

	few struct { // memory of a small record, which saves allocations
		nodes   [8]Node
		buffers [12][]byte
	}
}

func (p *Part) size() int { return p.Record.size() + p.Batch.Extra }

// Part selects rows of a batch, and the same rows of y, which has dim columns; with dim 0 there is no output column.
func (f *Form) Part(b *ipc.Batch, rows []ipc.Span, y []float32, dim int) *Part {
	p := &Part{}
	f.Fill(p, b, rows, y, dim)
	return p
}

// Fill is Part into memory of the caller, which is zero. The part keeps no reference to rows.
func (f *Form) Fill(p *Part, b *ipc.Batch, rows []ipc.Span, y []float32, dim int) {
	p.Batch = b
	p.Rows, p.noting = ipc.CountRows(rows), len(f.dicts) > 0
	p.Nodes, p.Buffers = p.few.nodes[:0], p.few.buffers[:0]
	if f.nodes > cap(p.Nodes) || f.buffers > cap(p.Buffers) {
		p.Nodes, p.Buffers = make([]Node, 0, f.nodes), make([][]byte, 0, f.buffers)
	}
	for _, i := range f.fields {
		p.take(&b.Chunk, i, rows)
	}
	switch {
	case dim == 0:
	case f.columns:
		for _, column := range transpose(y, dim, rows, p.Rows) {
			p.node(p.Rows, 0)
			p.buffer(nil, ipc.AsBytes(column, 4))
		}
	default:
		p.node(p.Rows, 0)
		p.node(p.Rows*dim, 0)
		p.buffer(nil, nil, takeFixed(ipc.AsBytes(y, 4), 4*dim, rows))
	}
}

func transpose(y []float32, dim int, sel []ipc.Span, n int) [][]float32 {
	columns := make([][]float32, dim)
	for j := range columns {
		columns[j] = make([]float32, 0, n)
		for _, s := range sel {
			for row := s.Lo; row < s.Hi; row++ {
				columns[j] = append(columns[j], y[row*dim+j])
			}
		}
	}
	return columns
}

// Whole returns the message of these parts with all dictionary entries.
func (f *Form) Whole(parts []*Part, dicts []ipc.Chunk) Bundle {
	g := Bundle{Parts: parts}
	for _, p := range parts {
		g.Size += p.size()
	}
	if len(parts) == 0 {
		return g // dictionaries are only written before a batch
	}
	g.dicts = make([]*Record, len(f.dicts))
	for k, at := range f.dicts {
		g.dicts[k] = &Record{Rows: dicts[at].Rows}
		g.dicts[k].Whole(&dicts[at], 0)
		g.Size += g.dicts[k].size()
	}
	return g
}

// Write encodes a message, with meta added to the schema's metadata. The compressor may be nil.
func (f *Form) Write(mem *ipc.Buffers, g *Bundle, meta []wire.Pair, codec *Compressor) []byte {
	n := f.SchemaSize() + g.Size + len(endOfStream)
	for _, p := range meta {
		n += 64 + len(p.Key) + len(p.Value)
	}
	dst := f.block.schemaFrame(mem.Get(n), meta)
	for k, r := range g.dicts {
		dst = r.DataFrame(dst, f.dicts[k], nil, codec)
	}
	for _, p := range g.Parts {
		dst = f.block.batchFrame(dst, p, codec)
	}
	dst = append(dst, endOfStream...)
	if codec != nil && cap(dst)-len(dst) > len(dst)/8 { // the capacity was for uncompressed data
		exact := append(mem.Get(len(dst)), dst...)
		mem.Put(dst)
		return exact
	}
	return dst
}
