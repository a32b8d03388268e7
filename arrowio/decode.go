package arrowio

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rowtext"
	"github.com/embedd/embedd/arrowio/wire"
)

// A Decoder reads messages. It keeps no state but a bounded cache of schemas: the result of Decode depends only on the
// message, the Spec and the Contract. It is safe for concurrent use.
type Decoder struct {
	spec      Spec
	limits    Limits
	ipcLimits ipc.Limits
	codecs    ipc.Decompressor
	recent    atomic.Pointer[recordSchema] // of the last record
	texts     textReader

	mu      sync.RWMutex
	schemas map[int][]*cachedSchema // by the length of their metadata
	cached  int                     // bytes in schemas
	count   int
}

// Limits of the plan cache. A full cache is emptied, which costs one parse for each schema in use.
const (
	maxPlans     = 64
	maxPlanBytes = 4 << 20
)

// NewDecoder returns a decoder of messages as described by spec, whose slices and maps must not change afterwards.
func NewDecoder(spec Spec) (*Decoder, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	spec.Limits = spec.Limits.orDefault()
	d := &Decoder{spec: spec, limits: spec.Limits, ipcLimits: spec.Limits.forIPC(), schemas: map[int][]*cachedSchema{}}
	d.codecs.Body = d.limits.Body
	d.texts.spec, d.texts.limits = &d.spec, d.limits
	return d, nil
}

// A Message is a decoded message: a view on the bytes given to Decode, or on the record given to FromRecord. It is
// immutable and safe for concurrent use until it is released.
type Message struct {
	decoder *Decoder
	users   atomic.Int32 // in addition to the first
	plan    *plan
	dicts   []ipc.Chunk
	batches []*Batch
	rows    int
	size    int
	table   *rowtext.Table // of a text message

	varyingLists map[int]bool // feature columns that withoutVaryingLists leaves out; nil: none
	varyingError *Error       // about the first of them

	first Batch // the batch of a message with one batch, which saves allocations
	one   [1]*Batch
}

// next returns an empty batch that add may append to the message.
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

// Retain adds a user of the message.
func (m *Message) Retain() { m.users.Add(1) }

// Release ends the use of a message by one of its users: the caller of Decode or FromRecord, and one for each call of
// Retain. When the last has ended, later messages reuse the memory of decompressed bodies and of copied features;
// neither the message nor anything that it returned, except texts and contracts, may be used after that. Calling
// Release is optional.
func (m *Message) Release() {
	if m.users.Add(-1) != -1 {
		return
	}
	for k := range m.dicts {
		m.dicts[k].Release(&m.decoder.codecs)
	}
	for _, b := range m.batches {
		b.data.Release(&m.decoder.codecs)
		if b.copies != nil {
			m.decoder.codecs.Buffers.Put(b.copies)
		}
		b.blocks, b.copies = nil, nil
	}
	if m.table != nil {
		m.table.Release()
		m.table = nil
	}
}

// mustExist panics with an error unless a decoder has made the message.
func (m *Message) mustExist() {
	if m == nil || m.plan == nil {
		panic(wire.Errorf(wire.Internal, "there is no message").WithHint("give one that Decode or FromRecord returned"))
	}
}

// Batches returns the record batches in their order.
func (m *Message) Batches() []*Batch { return m.batches }

// Rows returns the number of rows of all batches.
func (m *Message) Rows() int { return m.rows }

// Bytes returns the total size of the message's buffers, decompressed and with converted features. The part beyond the
// length of the message is extra memory.
func (m *Message) Bytes() int { return m.size }

// Contract returns the contract that the message was decoded with. Without one it returns the contract that the message
// proposes: the columns that the Spec selects, in its order. It is nil if the Spec selects no features, or if no row
// determines the length of a list column.
func (m *Message) Contract() *Contract {
	p := m.plan
	if p.contract != nil {
		return p.contract
	}
	columns := p.columns
	if len(m.batches) > 0 {
		columns = m.batches[len(m.batches)-1].columns
	}
	if last := p.lastContract.Load(); last != nil && slices.Equal(last.columns, columns) {
		return last.contract
	}
	c := p.propose(columns)
	p.lastContract.Store(&lastContract{columns, c})
	return c
}

// Decode reads one message. With a contract, the features are its elements, found by name, with numbers of any class.
// With a nil contract, they are the columns that the Spec selects, and [Message.Contract] is the contract that the
// message proposes. Pass the same *Contract for all messages of a pipeline, because plans are cached by it.
//
// The error is always an *Error. If the Spec can read the message but its features do not fit the contract, the code is
// wire.SchemaChanged. The result is a view on msg, which must not change while the result is in use.
func (d *Decoder) Decode(msg []byte, c *Contract) (*Message, error) {
	var e Envelope
	e.Open(d, msg)
	return e.Decode(c)
}

// An Envelope is a message that is not decoded yet. Its frames are read once for both of its methods. It may be opened
// again, and references the message until then. One goroutine uses it.
type Envelope struct {
	decoder *Decoder
	msg     []byte
	frames  ipc.Stream
}

// Open sets the message that the other methods read.
func (e *Envelope) Open(d *Decoder, msg []byte) {
	e.decoder, e.msg = d, msg
	e.frames.Reset(msg)
}

// Decode is [Decoder.Decode] for the message.
func (e *Envelope) Decode(c *Contract) (*Message, error) {
	d := e.decoder
	return d.withoutVaryingLists(func(excluded []string) (m *Message, err error) {
		defer rescue(&err)
		if d.spec.Format.IsText() {
			return decodeText(d, e.msg, c, excluded), nil
		}
		return d.decode(e, c, excluded), nil
	})
}

func (d *Decoder) decode(e *Envelope, c *Contract, excluded []string) *Message {
	if len(e.msg) > d.limits.Message {
		panic(d.tooLong(e.msg))
	}
	var at ipc.Cursor
	f := e.frames.Next(&at)
	if f == nil {
		panic(wire.Errorf(wire.NotArrow, "the stream ends before its schema").WithHint(ipc.StreamHint))
	}
	if f.Kind != ipc.HeadSchema {
		panic(wire.Errorf(wire.Malformed, "the stream does not begin with a schema").WithHint(
			"send a whole stream in each message, not one batch of a longer stream"))
	}
	p, ids := d.planOf(f, c, excluded)
	m := &Message{decoder: d, plan: p}
	budget := d.limits.Body
	byID := byNumber(ids)
	var have []bool
	if len(ids) > 0 {
		m.dicts, have = make([]ipc.Chunk, len(ids)), make([]bool, len(ids))
	}
	for {
		isMarked := !at.IsAtEnd() // true if an end-of-stream mark may follow
		f = e.frames.Next(&at)
		if f == nil && !isMarked && len(m.batches) == 0 {
			panic(wire.Errorf(wire.Truncated, "the stream stops before its first batch and without an end mark").WithHint(
				"send the whole stream in one message"))
		}
		if f == nil {
			m.size = d.limits.Body - budget
			return m
		}
		switch f.Kind {
		case ipc.HeadSchema:
			panic(wire.Errorf(wire.Malformed, "a second schema").WithHint("send one stream a message"))
		case ipc.HeadDictionary:
			d.dictionary(m, f, byID, have, &budget)
		case ipc.HeadRecord:
			if len(m.batches) == 0 {
				d.dictionaries(m, have)
			}
			d.batch(m, f, &budget)
		}
	}
}

// tooLong returns the error for a message over Limits.Message.
func (d *Decoder) tooLong(msg []byte) *Error {
	return wire.Errorf(wire.TooLarge, "the message has %d bytes, and the limit is %d", len(msg),
		d.limits.Message).WithHint("send smaller batches or raise limits.message")
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
func (d *Decoder) dictionary(m *Message, f *ipc.Frame, byID map[int64]int, have []bool, budget *int) {
	id := f.Head.Integer(0, 8, 0, "a dictionary's number")
	delta := f.Head.Integer(2, 1, 0, "a dictionary's delta mark")
	k, known := byID[id]
	if !known {
		panic(ipc.Malformed("dictionary %d is not in the schema", id))
	}
	refuse := func(what string) {
		panic(wire.Errorf(wire.Dictionary, "dictionary %d %s", id, what).WithHint("send each dictionary whole, once, " +
			"before the first batch (pyarrow.Table.unify_dictionaries), or one batch a message").
			In(m.plan.schema.Dicts[k].Fields[0].Name))
	}
	switch {
	case delta != 0:
		refuse("is extended by a delta")
	case len(m.batches) > 0:
		refuse("comes after a record batch")
	case have[k]:
		refuse("comes twice")
	}
	data, ok := f.Head.Table(1, "a dictionary's data")
	if !ok {
		panic(ipc.Malformed("dictionary %d has no data", id))
	}
	have[k] = true
	m.dicts[k] = ipc.ReadChunk(f, data, &m.plan.schema.Dicts[k], d.ipcLimits, budget, &d.codecs)
}

// dictionaries checks all dictionaries once they are complete, because a dictionary may contain indices into another.
func (d *Decoder) dictionaries(m *Message, have []bool) {
	for k, ok := range have {
		if !ok {
			panic(wire.Errorf(wire.Malformed, "a dictionary is missing").WithHint(
				"send each dictionary before the first batch").In(m.plan.schema.Dicts[k].Fields[0].Name))
		}
	}
	for k := range m.dicts {
		if e := m.dicts[k].Check(d.ipcLimits, m.dicts); e != nil {
			panic(ipc.EntryError(e))
		}
	}
	d.checkNames(m, nil)
}

// batch reads a RecordBatch.
func (d *Decoder) batch(m *Message, f *ipc.Frame, budget *int) {
	if len(m.batches) == d.limits.Batches {
		panic(wire.Errorf(wire.TooManyRows, "more than %d record batches", d.limits.Batches).WithHint(
			"send larger batches or more messages"))
	}
	defer ipc.Annotate(func(e *Error) { e.Batch = len(m.batches) })
	b := m.next()
	b.data.Message = f.Message
	b.data.Extra = f.MetadataSize(d.ipcLimits)
	b.data.Chunk = ipc.ReadChunk(f, f.Head, &m.plan.schema.Layout, d.ipcLimits, budget, &d.codecs)
	d.add(m, b, budget)
}

// add checks a batch, finds its features, and appends it to the message.
func (d *Decoder) add(m *Message, b *Batch, budget *int) {
	if m.rows += b.data.Rows; m.rows > d.limits.Rows {
		panic(ipc.TooManyRows(int64(m.rows), d.limits.Rows))
	}
	if e := b.data.Check(d.ipcLimits, m.dicts); e != nil {
		panic(e)
	}
	d.checkNames(m, b)
	b.blocks = b.features(budget, d.limits)
	m.batches = append(m.batches, b)
}

// Expanded returns an upper bound of the memory that a message needs while it is decoded and answered, without
// unpacking or allocating anything: its own bytes, all buffers after decompression (shared bytes count once per
// buffer), and dim float32 outputs per row. The output is at most this long, apart from metadata; if Split divides it,
// at most twice as long or Limits.Body. For a message that Decode rejects because of its frames, it is the length of
// the message.
//
// Features that are copied (integers of four or eight bytes, decimals, booleans, encoded, or with nulls) take another 8
// bytes each, are bounded by Limits.Body together with the buffers, and are released once the message is answered.
//
// For a message of text, which has no such figures, it is what so many bytes, commas and lines can take at most,
// without encoded features.
func (e *Envelope) Expanded(dim int) int {
	d, msg := e.decoder, e.msg
	if len(msg) > d.limits.Message {
		return len(msg)
	}
	if d.spec.Format.IsText() {
		return len(msg) + d.texts.memory(msg) + d.texts.answer(msg, dim)
	}
	size, rows, ok := e.frames.Expanded(d.ipcLimits)
	if !ok {
		return len(msg)
	}
	return len(msg) + size + 4*dim*rows
}

// A Batch is a record batch of a message.
type Batch struct {
	data    ipc.Batch
	message *Message
	blocks  []Block
	block1  [1]Block
	copies  []byte   // of features that are not views on the message
	columns []column // the feature columns in order
	// rejected are the rows of a text message that cannot be read, and rows with a value of the wrong type, such as a date
	// that is none. Their codes are set.
	rejected []Fault
	unseen   int // categories with none of the values of their encoding

	once   sync.Once
	faults []Fault
}

// Rows returns the number of rows, n.
func (b *Batch) Rows() int { return b.data.Rows }

// Features returns blocks that form the n x m feature matrix side by side, in the order of the contract. They are views
// on the message where possible and must not be written to.
func (b *Batch) Features() []Block { return b.blocks }

// Unseen returns how many categories in the rows have none of the values of their [Encoding].
func (m *Message) Unseen() (n int) {
	for _, b := range m.batches {
		n += b.unseen
	}
	return n
}
