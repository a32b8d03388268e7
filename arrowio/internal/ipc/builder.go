package ipc

// A Builder lays out the buffers of a new chunk in one body, field by field, depth first. The buffers begin as zeros
// and are filled by the caller.
type Builder struct {
	chunk  Chunk
	node   int
	buffer int
	at     int
}

// NewBuilder returns a builder of a chunk whose buffers take at most size bytes, each rounded up to 8. Release returns
// the memory of the body.
func NewBuilder(l *Layout, rows, size int, codecs *Decompressor) *Builder {
	ranges := Padded(size)
	nodes := ranges + 16*l.Buffers
	all := codecs.Buffers.Get(nodes + 16*len(l.Fields))[:nodes+16*len(l.Fields)]
	clear(all[:size])
	return &Builder{chunk: Chunk{Layout: l, Rows: rows, nodes: all[nodes:], Ranges: all[ranges:nodes], Body: all[:size],
		isUnpacked: true}}
}

// Field begins the next field.
func (b *Builder) Field(rows int) Validity {
	v := Validity{node: b.chunk.nodes[16*b.node : 16*b.node+16]}
	b.node++
	le.PutUint64(v.node, uint64(rows))
	le.PutUint64(v.node[8:], uint64(rows))
	return v
}

// Buffer returns the next buffer of the field, of n bytes.
func (b *Builder) Buffer(n int) []byte {
	from := b.at
	b.at += Padded(n)
	le.PutUint64(b.chunk.Ranges[16*b.buffer:], uint64(from))
	le.PutUint64(b.chunk.Ranges[16*b.buffer+8:], uint64(n))
	b.buffer++
	return b.chunk.Body[from : from+n : from+n]
}

// Chunk returns the chunk once all buffers are filled.
func (b *Builder) Chunk() Chunk { return b.chunk }

// Padded returns the size of a buffer of n bytes in a body.
func Padded(n int) int { return (n + 7) &^ 7 }

// Validity counts and marks the values of a field that are not null. At first all are null.
type Validity struct {
	Bits []byte
	node []byte
}

// Set marks a value that is not null. Call it once for each.
func (v *Validity) Set(row int) {
	v.Bits[row>>3] |= 1 << (row & 7)
	le.PutUint64(v.node[8:], le.Uint64(v.node[8:])-1)
}
