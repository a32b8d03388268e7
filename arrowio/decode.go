package arrowio

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// A Decoder reads messages. It keeps nothing of them but a bounded cache of their schemas: what Decode returns depends
// on the message, the Spec and the Contract alone. It is safe for concurrent use.
type Decoder struct {
	spec   Spec
	limits Limits
	read   ipc.Limits
	codecs ipc.Decompressor
	recent atomic.Pointer[recordSchema] // of the last record

	mu     sync.RWMutex
	plans  map[int][]*entry // by length of the schema's bytes
	cached int              // bytes in plans
	count  int
}

// Bounds of the plan cache. When one is reached the cache starts afresh, which costs a parse a schema.
const (
	maxPlans     = 64
	maxPlanBytes = 4 << 20
)

// NewDecoder returns a decoder for messages that look as spec says.
func NewDecoder(spec Spec) (*Decoder, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.orDefault()
	d := &Decoder{spec: spec, limits: spec.Limits, read: spec.Limits.read(), plans: map[int][]*entry{}}
	d.codecs.Body = d.limits.Body
	return d, nil
}

// A Message is one decoded message: a view on the bytes given to Decode, or on the record given to FromRecord. It is
// immutable and safe for concurrent use.
type Message struct {
	plan    *plan
	dicts   []ipc.Chunk
	batches []*Batch
	rows    int
	size    int
	most    int // Limits.Body

	first Batch // most messages have one: few objects a message, since a small one takes no longer than they do
	one   [1]*Batch
}

// next is a batch that add makes the message's next.
func (m *Message) next() *Batch {
	b := &m.first
	if len(m.batches) > 0 {
		b = &Batch{}
	} else {
		m.batches = m.one[:0]
	}
	b.message = m
	return b
}

// Batches returns the record batches in their order.
func (m *Message) Batches() []*Batch { return m.batches }

// Rows returns the number of rows of all batches.
func (m *Message) Rows() int { return m.rows }

// Bytes returns what the buffers of the message come to, unpacked and with the features that had to be copied. What it
// is over the length of the message is memory of the result's own.
func (m *Message) Bytes() int { return m.size }

// Contract returns the contract under which the message was decoded. Without one it is the contract that the message
// itself proposes: the columns that the Spec chooses, in its order. It is nil where the Spec names no features, and
// where no row says how long the lists of a column are.
func (m *Message) Contract() *Contract {
	p := m.plan
	if p.contract != nil {
		return p.contract
	}
	columns := p.columns
	if len(m.batches) > 0 {
		columns = m.batches[len(m.batches)-1].columns
	}
	if last := p.proposal.Load(); last != nil && slices.Equal(last.columns, columns) {
		return last.contract
	}
	c := p.propose(columns)
	p.proposal.Store(&proposal{columns, c})
	return c
}

// Decode reads one message. Its features are the elements of the contract, found by name, with numbers of any class.
// With a nil contract they are the columns that the Spec chooses, in the order of the message's schema within a glob;
// [Message.Contract] is then the contract that the message proposes. Give the messages of a pipeline the same *Contract:
// plans are cached for it.
//
// The error is always an *Error. A message that the Spec can read and that does not have the features of the contract is
// wire.SchemaChanged. The result is a view on msg, which must not change as long as the result is in use.
func (d *Decoder) Decode(msg []byte, c *Contract) (m *Message, err error) {
	defer rescue(&err)
	m, e := d.decode(msg, c)
	if e != nil {
		return nil, e
	}
	return m, nil
}

func (d *Decoder) decode(msg []byte, c *Contract) (*Message, *Error) {
	if len(msg) > d.limits.Message {
		return nil, wire.Errorf(wire.TooLarge, "the message has %d bytes, and the limit is %d", len(msg),
			d.limits.Message).WithHint("send smaller batches or raise limits.message")
	}
	f, rest, end, e := ipc.NextFrame(msg, true)
	if e != nil {
		return nil, e
	}
	if end {
		return nil, wire.Errorf(wire.NotArrow, "the stream ends before its schema").WithHint(ipc.StreamHint)
	}
	if f.Kind != ipc.HeadSchema {
		return nil, wire.Errorf(wire.Malformed, "the stream does not begin with a schema").WithHint(
			"send a whole stream in each message, not one batch of a longer stream")
	}
	p, ids, e := d.planOf(f, c)
	if e != nil {
		return nil, e
	}
	m := &Message{plan: p, most: d.limits.Body}
	budget := d.limits.Body
	byID := byNumber(ids)
	var have []bool
	if len(ids) > 0 {
		m.dicts, have = make([]ipc.Chunk, len(ids)), make([]bool, len(ids))
	}
	for {
		marked := len(rest) > 0 // if this is the end
		if f, rest, end, e = ipc.NextFrame(rest, false); e != nil {
			return nil, e
		}
		if end && !marked && len(m.batches) == 0 {
			return nil, wire.Errorf(wire.Truncated, "the stream stops before its first batch and without an end mark").WithHint(
				"send the whole stream in one message")
		}
		if end {
			m.size = d.limits.Body - budget
			return m, nil
		}
		switch f.Kind {
		case ipc.HeadSchema:
			return nil, wire.Errorf(wire.Malformed, "a second schema").WithHint("send one stream a message")
		case ipc.HeadDictionary:
			e = d.dictionary(m, f, byID, have, &budget)
		case ipc.HeadRecord:
			if len(m.batches) == 0 {
				e = d.dictionaries(m, have)
			}
			if e == nil {
				e = d.batch(m, f, &budget)
			}
			if e != nil {
				e.Batch = len(m.batches)
			}
		}
		if e != nil {
			return nil, e
		}
	}
}

func byNumber(ids []int64) map[int64]int {
	if len(ids) == 0 {
		return nil
	}
	m := make(map[int64]int, len(ids))
	for k, id := range ids {
		m[id] = k
	}
	return m
}

// dictionary reads a DictionaryBatch.
func (d *Decoder) dictionary(m *Message, f ipc.Frame, byID map[int64]int, have []bool, budget *int) *Error {
	id, err := f.Head.Integer(0, 8, 0, "a dictionary's number")
	if err != nil {
		return ipc.Broken(err)
	}
	delta, err := f.Head.Integer(2, 1, 0, "a dictionary's delta mark")
	if err != nil {
		return ipc.Broken(err)
	}
	k, known := byID[id]
	const cure = "send each dictionary whole, once, before the first batch"
	switch {
	case delta != 0:
		return wire.Errorf(wire.Dictionary, "dictionary %d is extended by a delta", id).WithHint(cure)
	case !known:
		return wire.Errorf(wire.Malformed, "dictionary %d is not in the schema", id).WithHint(ipc.StreamHint)
	case len(m.batches) > 0:
		return wire.Errorf(wire.Dictionary, "dictionary %d comes after a record batch", id).WithHint(cure)
	case have[k]:
		return wire.Errorf(wire.Dictionary, "dictionary %d comes twice", id).WithHint(cure)
	}
	data, ok, err := f.Head.Table(1, "a dictionary's data")
	if err != nil {
		return ipc.Broken(err)
	}
	if !ok {
		return wire.Errorf(wire.Malformed, "dictionary %d has no data", id).WithHint(ipc.StreamHint)
	}
	have[k] = true
	var e *Error
	m.dicts[k], e = ipc.ReadChunk(f, data, &m.plan.schema.Dicts[k], d.read, budget, &d.codecs)
	return e
}

// dictionaries checks all dictionaries once they are complete, because one may hold indices into another.
func (d *Decoder) dictionaries(m *Message, have []bool) *Error {
	for k, ok := range have {
		if !ok {
			return wire.Errorf(wire.Malformed, "a dictionary is missing").WithHint(
				"send each dictionary before the first batch").In(m.plan.schema.Dicts[k].Fields[0].Name)
		}
	}
	for k := range m.dicts {
		if e := m.dicts[k].Check(d.read, m.dicts); e != nil {
			return ipc.EntryError(e)
		}
	}
	return d.checkTexts(m)
}

// batch reads a RecordBatch.
func (d *Decoder) batch(m *Message, f ipc.Frame, budget *int) *Error {
	if len(m.batches) == d.limits.Batches {
		return wire.Errorf(wire.TooManyRows, "more than %d record batches", d.limits.Batches).WithHint(
			"send larger batches or more messages")
	}
	b := m.next()
	b.data.Message = f.Message
	var e *Error
	if b.data.Extra, e = f.MetadataSize(d.read); e != nil {
		return e
	}
	if b.data.Chunk, e = ipc.ReadChunk(f, f.Head, &m.plan.schema.Layout, d.read, budget, &d.codecs); e != nil {
		return e
	}
	return d.add(m, b, budget)
}

// add checks a batch, finds its features, and makes it the message's next.
func (d *Decoder) add(m *Message, b *Batch, budget *int) (e *Error) {
	if m.rows += b.data.Rows; m.rows > d.limits.Rows {
		return ipc.TooManyRows(int64(m.rows), d.limits.Rows)
	}
	if e := b.data.Check(d.read, m.dicts); e != nil {
		return e
	}
	if e := d.checkNames(b); e != nil {
		return e
	}
	if b.blocks, e = b.features(budget, d.limits); e != nil {
		return e
	}
	m.batches = append(m.batches, b)
	return nil
}

// Expanded is the number of bytes that a message comes to while it is decoded and answered, told from its frames
// before anything is unpacked or allocated: its own bytes, every buffer of its batches and dictionaries as it is once
// decompressed (buffers that share bytes count each), and dim float32 outputs a row. An undivided output is never
// longer but for metadata, and one that Split divides at most twice as long, or as long as Limits.Body. A message that Decode refuses for
// what its frames say costs its own bytes and no more. It reads the lists of buffers and nothing behind them.
//
// Features that are integers, or have nulls, are copied as well, 8 bytes each. Limits.Body bounds them together with
// the buffers, and they are gone once the message is answered.
func (d *Decoder) Expanded(msg []byte, dim int) int {
	if len(msg) > d.limits.Message {
		return len(msg)
	}
	size, rows, ok := ipc.Expanded(msg, d.read)
	if !ok {
		return len(msg)
	}
	return len(msg) + size + 4*dim*rows
}

// A Batch is one record batch of a message.
type Batch struct {
	data    ipc.Batch
	message *Message
	blocks  []Block
	block1  [1]Block
	columns []column // of the features, in order

	once   sync.Once
	faults []Fault
}

// Rows returns the number of rows, n.
func (b *Batch) Rows() int { return b.data.Rows }

// Features returns the blocks that side by side make the n x m matrix of features, in the order of the contract.
// They are views on the message wherever the data allows it and must not be written to.
func (b *Batch) Features() []Block { return b.blocks }
