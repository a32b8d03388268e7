package rewrite

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/embedd/embedd/arrowio/internal/flat"
	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/wire"
)

// typeSlots has the slots of each type's table: a width in bytes, s for a string, v for a vector of 32-bit integers
// (format/Schema.fbs).
var typeSlots = map[int]string{
	ipc.TypeInt: "41", ipc.TypeFloat: "2", ipc.TypeDecimal: "444", ipc.TypeDate: "2", ipc.TypeTime: "24",
	ipc.TypeTimestamp: "2s",
	ipc.TypeInterval:  "2", ipc.TypeUnion: "2v",
	ipc.TypeFixedBinary: "4", ipc.TypeFixedList: "4", ipc.TypeMap: "1", ipc.TypeDuration: "2",
}

var builders = sync.Pool{New: func() any { return flatbuffers.NewBuilder(1024) }}

// A block is a finished piece of flatbuffer: the kept fields and the user's metadata. Flatbuffer offsets are relative
// and point forward, so a block can be appended to a new head that refers to it. Positions count from its end, as in
// the builder.
type block struct {
	bytes  []byte // length is a multiple of 8
	fields []flatbuffers.UOffsetT
	pairs  []pairAt
	last   atomic.Pointer[cachedFrame]
	plain  atomic.Pointer[plainFrame]
}

// plainFrame is the frame metadata of a batch without metadata, dictionaries, views or compression. Such batches of one
// schema differ only in numbers.
type plainFrame struct {
	bytes          []byte
	nodes, buffers int // number of nodes and buffers
	// positions of the numbers
	body, rows, nodeAt, bufferAt int
}

// newPlainFrame returns the plainFrame of a frame without its body; nil if a number is left out because it is zero.
func newPlainFrame(frame []byte, r *Record) *plainFrame {
	message := flat.Root(frame[framePrefix:], "")
	head, ok := message.Table(2, "")
	body, rows := message.Slot(3, 8, ""), head.Slot(0, 8, "")
	nodes, buffers := head.Vector(1, 16, ""), head.Vector(2, 16, "")
	if !ok || body == 0 || rows == 0 {
		return nil
	}
	return &plainFrame{slices.Clone(frame), len(r.Nodes), len(r.Buffers), framePrefix + body, framePrefix + rows,
		framePrefix + nodes.Pos, framePrefix + buffers.Pos}
}

// appendWith appends the frame with the numbers of a record; false if the record needs another frame.
func (p *plainFrame) appendWith(dst []byte, r *Record) ([]byte, bool) {
	if p == nil || len(r.Nodes) != p.nodes || len(r.Buffers) != p.buffers || len(r.Variadic) > 0 || r.Rows == 0 {
		return dst, false
	}
	begin, at := len(dst), 0
	dst = append(dst, p.bytes...)
	frame := dst[begin:]
	for i, b := range r.Buffers {
		le.PutUint64(frame[p.bufferAt+16*i:], uint64(at))
		le.PutUint64(frame[p.bufferAt+16*i+8:], uint64(len(b)))
		at += (len(b) + 7) &^ 7
	}
	if at == 0 {
		return dst[:begin], false
	}
	for i, n := range r.Nodes {
		le.PutUint64(frame[p.nodeAt+16*i:], uint64(n.Rows))
		le.PutUint64(frame[p.nodeAt+16*i+8:], uint64(n.Nulls))
	}
	le.PutUint64(frame[p.body:], uint64(at))
	le.PutUint64(frame[p.rows:], uint64(r.Rows))
	return dst, true
}

// batchFrame appends a record batch frame with its body.
func (k *block) batchFrame(dst []byte, p *Part, codec *Compressor) []byte {
	plain := codec == nil && p.Batch.Extra == 0
	if plain {
		var done bool
		if dst, done = k.plain.Load().appendWith(dst, &p.Record); done {
			return appendBody(dst, p.Buffers)
		}
	}
	begin := len(dst)
	dst = p.DataFrame(dst, -1, &p.Batch.Message, codec)
	if plain && len(p.Variadic) == 0 && len(p.Nodes) <= maxPlainNodes {
		size := framePrefix + int(le.Uint32(dst[begin+4:]))
		k.plain.Store(newPlainFrame(dst[begin:begin+size], &p.Record))
	}
	return dst
}

// maxPlainNodes bounds the memory of a plainFrame.
const maxPlainNodes = 64

func appendBody(dst []byte, buffers [][]byte) []byte {
	for _, x := range buffers {
		dst = append(dst, x...)
		dst = Pad(dst, len(x))
	}
	return dst
}

// cachedFrame is the last schema frame. The next one usually differs only in the digits of a number.
type cachedFrame struct {
	frame []byte
	meta  []wire.Pair
	at    []int // positions of the values of meta
}

// appendWith appends the frame with the values of meta; false if meta needs another frame.
func (w *cachedFrame) appendWith(dst []byte, meta []wire.Pair) ([]byte, bool) {
	if w == nil || len(meta) != len(w.meta) {
		return dst, false
	}
	for i, m := range meta {
		if m.Key != w.meta[i].Key || len(m.Value) != len(w.meta[i].Value) {
			return dst, false
		}
	}
	begin := len(dst)
	dst = append(dst, w.frame...)
	for i, m := range meta {
		copy(dst[begin+w.at[i]:], m.Value)
	}
	return dst, true
}

type pairAt struct {
	key    string
	offset flatbuffers.UOffsetT
}

// newBlock copies top-level fields of s and appends those of extra. Metadata of the names of reserved headers is left
// out: it is about another message, as in the output of another pipeline.
func newBlock(s *ipc.Schema, fields []int, extra func(*flatbuffers.Builder) []flatbuffers.UOffsetT) *block {
	b := flatbuffers.NewBuilder(1024)
	k := &block{}
	for i := 0; i < s.Pairs.Len; i++ {
		kv := s.Pairs.Table(i, "a metadata entry")
		if key, _ := kv.Text(0, "a metadata text"); !wire.Reserved(string(key)) {
			k.pairs = append(k.pairs, pairAt{string(key), copyPair(b, kv)})
		}
	}
	for _, i := range fields {
		k.fields = append(k.fields, copyField(s, b, flat.Open(s.Bytes, s.Layout.Fields[i].Table, "a field")))
	}
	if extra != nil {
		k.fields = append(k.fields, extra(b)...)
	}
	b.Prep(8, 0)
	k.bytes = slices.Clone(b.Bytes[b.Head():])
	return k
}

func copyPair(b *flatbuffers.Builder, kv flat.Table) flatbuffers.UOffsetT {
	key := copyText(b, kv, 0)
	return Pair(b, key, copyText(b, kv, 1))
}

// copyText copies the text of a slot.
func copyText(b *flatbuffers.Builder, t flat.Table, slot int) flatbuffers.UOffsetT {
	if text, ok := t.Text(slot, "a text"); ok {
		return b.CreateByteString(text)
	}
	return 0
}

// Pair writes a key/value pair.
func Pair(b *flatbuffers.Builder, key, value flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartObject(2)
	b.PrependUOffsetTSlot(0, key, 0)
	b.PrependUOffsetTSlot(1, value, 0)
	return b.EndObject()
}

func copyPairs(b *flatbuffers.Builder, t flat.Table, slot int) flatbuffers.UOffsetT {
	v := t.Vector(slot, 4, "the metadata list")
	if v.Len == 0 {
		return 0
	}
	at := make([]flatbuffers.UOffsetT, v.Len)
	for i := range at {
		at[i] = copyPair(b, v.Table(i, "a metadata entry"))
	}
	return References(b, at)
}

// References writes a vector of offsets.
func References(b *flatbuffers.Builder, at []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(at), 4)
	for i := len(at) - 1; i >= 0; i-- {
		b.PrependUOffsetT(at[i])
	}
	return b.EndVector(len(at))
}

// copyField copies a Field table with its children. Dictionary ids are replaced by normalised ones.
func copyField(s *ipc.Schema, b *flatbuffers.Builder, t flat.Table) (at flatbuffers.UOffsetT) {
	children := t.Vector(5, 4, "the list of children")
	var kids, encoding flatbuffers.UOffsetT
	if children.Pos != 0 {
		sub := make([]flatbuffers.UOffsetT, children.Len)
		for i := range sub {
			sub[i] = copyField(s, b, children.Table(i, "a child field"))
		}
		kids = References(b, sub)
	}
	pairs := copyPairs(b, t, 6)
	if d, ok := t.Table(4, "a dictionary encoding"); ok {
		encoding = copyEncoding(s, b, d)
	}
	typ := t.Integer(2, 1, 0, "a field's type")
	tt, _ := t.Table(3, "a field's type")
	typeAt := copyType(b, tt, typeSlots[int(typ)])
	name, nullable := copyText(b, t, 0), t.Integer(1, 1, 0, "a field's nullability") != 0
	return FieldTable(b, name, nullable, byte(typ), typeAt, encoding, kids, pairs)
}

// FieldTable writes a Field table.
func FieldTable(b *flatbuffers.Builder, name flatbuffers.UOffsetT, nullable bool, typ byte, typeAt, encoding, kids,
	pairs flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartObject(7)
	b.PrependUOffsetTSlot(0, name, 0)
	b.PrependUOffsetTSlot(3, typeAt, 0)
	b.PrependUOffsetTSlot(4, encoding, 0)
	b.PrependUOffsetTSlot(5, kids, 0)
	b.PrependUOffsetTSlot(6, pairs, 0)
	b.PrependBoolSlot(1, nullable, false)
	b.PrependByteSlot(2, typ, 0)
	return b.EndObject()
}

func copyEncoding(s *ipc.Schema, b *flatbuffers.Builder, d flat.Table) flatbuffers.UOffsetT {
	k, ok := slices.BinarySearch(s.IDAt, d.Slot(0, 8, "a dictionary's number"))
	if !ok {
		panic(wire.Errorf(wire.Internal, "a dictionary's number was not found again"))
	}
	var indexAt flatbuffers.UOffsetT
	if index, ok := d.Table(1, "a dictionary's index type"); ok {
		indexAt = copyType(b, index, typeSlots[ipc.TypeInt])
	}
	ordered := d.Integer(2, 1, 0, "a dictionary's order")
	b.StartObject(4)
	b.PrependInt64Slot(0, int64(s.IDOf[k]), -1) // written even if 0, because some readers need it
	b.PrependUOffsetTSlot(1, indexAt, 0)
	b.PrependBoolSlot(2, ordered != 0, false)
	return b.EndObject()
}

// copyType copies a type's table slot by slot.
func copyType(b *flatbuffers.Builder, t flat.Table, slots string) flatbuffers.UOffsetT {
	var at [3]flatbuffers.UOffsetT
	var value [3]int64
	var have [3]bool
	for i := range slots {
		switch slots[i] {
		case 's':
			at[i] = copyText(b, t, i)
		case 'v':
			v := t.Vector(i, 4, "a type's list")
			if v.Pos == 0 {
				continue
			}
			b.StartVector(4, v.Len, 4)
			for k := v.Len - 1; k >= 0; k-- {
				b.PrependUint32(le.Uint32(v.Buf[v.Pos+4*k:]))
			}
			at[i] = b.EndVector(v.Len)
		default:
			width := int(slots[i] - '0')
			have[i], value[i] = t.Slot(i, width, "a type's parameter") != 0, t.Integer(i, width, 0, "")
		}
	}
	b.StartObject(len(slots))
	for i := range slots {
		switch {
		case at[i] != 0:
			b.PrependUOffsetTSlot(i, at[i], 0)
		case !have[i]:
		case slots[i] == '4':
			b.PrependInt32Slot(i, int32(value[i]), ^int32(value[i]))
		case slots[i] == '2':
			b.PrependInt16Slot(i, int16(value[i]), ^int16(value[i]))
		case slots[i] == '1':
			b.PrependByteSlot(i, byte(value[i]), ^byte(value[i]))
		}
	}
	return b.EndObject()
}

// FloatType writes the type table of float32.
func FloatType(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	b.StartObject(1)
	b.PrependInt16Slot(0, 1, 0)
	return b.EndObject()
}

// embeddingFields writes the fields of the output columns.
func embeddingFields(b *flatbuffers.Builder, names []string, list int) (at []flatbuffers.UOffsetT) {
	for _, n := range names {
		if list == 0 {
			typ := FloatType(b)
			at = append(at, FieldTable(b, b.CreateString(n), false, ipc.TypeFloat, typ, 0, References(b, nil), 0))
			continue
		}
		item := FieldTable(b, b.CreateString("item"), false, ipc.TypeFloat, FloatType(b), 0, References(b, nil), 0)
		kids := References(b, []flatbuffers.UOffsetT{item})
		b.StartObject(1)
		b.PrependInt32Slot(0, int32(list), -1)
		typ := b.EndObject()
		at = append(at, FieldTable(b, b.CreateString(n), false, ipc.TypeFixedList, typ, 0, kids, 0))
	}
	return at
}

// schemaFrame appends a schema frame: the block, with meta after the user's pairs.
func (k *block) schemaFrame(dst []byte, meta []wire.Pair) []byte {
	dst, done := k.last.Load().appendWith(dst, meta)
	if done {
		return dst
	}
	b := builders.Get().(*flatbuffers.Builder)
	defer builders.Put(b)
	b.Reset()
	b.CreateByteVector(k.bytes) // what is written first is at the end, from where its offsets count
	pairs := make([]flatbuffers.UOffsetT, 0, len(k.pairs)+len(meta))
	for _, p := range k.pairs {
		if !slices.ContainsFunc(meta, func(m wire.Pair) bool { return m.Key == p.key }) {
			pairs = append(pairs, p.offset)
		}
	}
	values := make([]flatbuffers.UOffsetT, len(meta))
	for i, m := range meta {
		value := b.CreateString(m.Value)
		values[i] = value
		pairs = append(pairs, Pair(b, b.CreateString(m.Key), value))
	}
	var pairsAt flatbuffers.UOffsetT
	if len(pairs) > 0 {
		pairsAt = References(b, pairs)
	}
	fields := References(b, k.fields)
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, fields, 0)
	b.PrependUOffsetTSlot(2, pairsAt, 0)
	begin := len(dst)
	dst = AppendFrame(dst, b, ipc.HeadSchema, b.EndObject(), 0, 0)
	if len(dst)-begin > len(k.bytes)+metadataReserve {
		return dst
	}
	w := &cachedFrame{frame: slices.Clone(dst[begin:]), meta: slices.Clone(meta)}
	for _, value := range values { // positions count from the end, and the text follows its length
		w.at = append(w.at, framePrefix+len(b.FinishedBytes())-int(value)+flatbuffers.SizeUOffsetT)
	}
	k.last.Store(w)
	return dst
}

// framePrefix is the number of bytes before the metadata of a frame.
const framePrefix = 8

// AppendFrame finishes the message table and appends the frame's prefix and metadata.
func AppendFrame(dst []byte, b *flatbuffers.Builder, kind byte, head flatbuffers.UOffsetT, body int,
	pairs flatbuffers.UOffsetT) []byte {
	b.StartObject(5)
	b.PrependInt64Slot(3, int64(body), 0)
	b.PrependUOffsetTSlot(2, head, 0)
	b.PrependUOffsetTSlot(4, pairs, 0)
	b.PrependInt16Slot(0, ipc.VersionV5, 0)
	b.PrependByteSlot(1, kind, 0)
	message := b.EndObject()
	b.Prep(8, 4) // the metadata must be a multiple of 8 bytes long
	b.Finish(message)
	meta := b.FinishedBytes()
	dst = le.AppendUint32(dst, 0xFFFFFFFF)
	dst = le.AppendUint32(dst, uint32((len(meta)+7)&^7))
	dst = append(dst, meta...)
	return Pad(dst, len(meta))
}

// Pad appends zeros after n bytes up to a multiple of 8.
func Pad(dst []byte, n int) []byte {
	for ; n%8 != 0; n++ {
		dst = append(dst, 0)
	}
	return dst
}

// DataFrame appends the frame of a record batch, or of dictionary dict if it is not negative, with its body.
func (r *Record) DataFrame(dst []byte, dict int, frame *flat.Table, codec *Compressor) []byte {
	buffers := r.Buffers
	if codec != nil {
		buffers = codec.pack(buffers)
	}
	b := builders.Get().(*flatbuffers.Builder)
	defer builders.Put(b)
	b.Reset()
	var pairs flatbuffers.UOffsetT
	if frame != nil {
		pairs = copyPairs(b, *frame, 4)
	}
	head, body := r.Header(b, buffers, codec)
	kind := byte(ipc.HeadRecord)
	if dict >= 0 {
		b.StartObject(3)
		b.PrependInt64Slot(0, int64(dict), -1)
		b.PrependUOffsetTSlot(1, head, 0)
		head = b.EndObject()
		kind = ipc.HeadDictionary
	}
	return appendBody(AppendFrame(dst, b, kind, head, body, pairs), buffers)
}

// Header writes the RecordBatch table and returns it with the length of the body.
func (r *Record) Header(b *flatbuffers.Builder, buffers [][]byte, codec *Compressor) (flatbuffers.UOffsetT, int) {
	var variadic, compression flatbuffers.UOffsetT
	if len(r.Variadic) > 0 {
		b.StartVector(8, len(r.Variadic), 8)
		for i := len(r.Variadic) - 1; i >= 0; i-- {
			b.PrependInt64(int64(r.Variadic[i]))
		}
		variadic = b.EndVector(len(r.Variadic))
	}
	if codec != nil {
		b.StartObject(2)
		b.PrependInt8Slot(0, int8(codec.Codec), -1)
		compression = b.EndObject()
	}
	body := 0
	for _, x := range buffers {
		body += (len(x) + 7) &^ 7
	}
	at := body
	b.StartVector(16, len(buffers), 8)
	for i := len(buffers) - 1; i >= 0; i-- {
		at -= (len(buffers[i]) + 7) &^ 7
		b.PrependInt64(int64(len(buffers[i])))
		b.PrependInt64(int64(at))
	}
	ranges := b.EndVector(len(buffers))
	b.StartVector(16, len(r.Nodes), 8)
	for i := len(r.Nodes) - 1; i >= 0; i-- {
		b.PrependInt64(int64(r.Nodes[i].Nulls))
		b.PrependInt64(int64(r.Nodes[i].Rows))
	}
	nodes := b.EndVector(len(r.Nodes))
	b.StartObject(5)
	b.PrependInt64Slot(0, int64(r.Rows), 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependUOffsetTSlot(2, ranges, 0)
	b.PrependUOffsetTSlot(3, compression, 0)
	b.PrependUOffsetTSlot(4, variadic, 0)
	return b.EndObject(), body
}

var le = binary.LittleEndian
