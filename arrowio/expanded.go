package arrowio

import "github.com/embedd/embedd/arrowio/internal/flat"

// Expanded is the number of bytes that a message comes to while it is decoded and answered, told from its frames
// before anything is unpacked or allocated: its own bytes, every buffer of its batches and dictionaries as it is once
// decompressed (buffers that share bytes count each), and dim float32 outputs a row. An undivided output is never
// longer but for metadata, and one that Split divides at most twice as long, or as long as Limits.Body. A message that Decode refuses for
// what its frames say costs its own bytes and no more. It reads the lists of buffers and nothing behind them.
//
// Features that are integers, or have nulls, are copied as well, 8 bytes each. Limits.Body bounds them together with
// the buffers, and they are gone once the message is answered.
func (d *Decoder) Expanded(msg []byte, dim int) (n int) {
	own := len(msg)
	defer func() {
		if recover() != nil {
			n = own // Decode meets the same fault and makes it an error
		}
	}()
	if own > d.limits.Message {
		return own
	}
	rows, body := int64(0), int64(0)
	for rest, first := msg, true; ; first = false {
		f, tail, end, e := nextFrame(rest, first)
		if e != nil {
			return own
		}
		if end {
			return own + int(body) + 4*dim*int(rows)
		}
		rest = tail
		if f.kind == headSchema {
			continue
		}
		head, ok := f.head, true
		if f.kind == headDictionary {
			var err error
			if head, ok, err = f.head.Table(1, ""); err != nil || !ok {
				return own
			}
		} else {
			count, err := head.Integer(0, 8, 0, "")
			if rows += count; err != nil || count < 0 || count > int64(d.limits.Rows) || rows > int64(d.limits.Rows) {
				return own
			}
		}
		size, ok := bodySize(f, head)
		if body += size; !ok || body > int64(d.limits.Body) {
			return own
		}
	}
}

// bodySize sums the buffers of a batch as they are once unpacked. ok is false where readChunk would refuse them.
func bodySize(f frame, head flat.Table) (total int64, ok bool) {
	buffers, err := head.Vector(2, 16, "")
	if err != nil {
		return 0, false
	}
	_, packed, err := head.Table(3, "")
	if err != nil {
		return 0, false
	}
	ranges := buffers.Bytes()
	for i := 0; i < buffers.Len; i++ {
		from, n := int64(le.Uint64(ranges[16*i:])), int64(le.Uint64(ranges[16*i+8:]))
		if from < 0 || n < 0 || from > int64(len(f.body)) || n > int64(len(f.body))-from {
			return 0, false
		}
		if packed {
			var e *Error
			if n, e = unpackedSize(f.body[from : from+n]); e != nil {
				return 0, false
			}
			n = (n + 7) &^ 7
		}
		if total += n; total < 0 || n < 0 {
			return 0, false
		}
	}
	return total, true
}
