package ipc

import "github.com/embedd/embedd/arrowio/internal/flat"

// Expanded returns the number of rows of the message and the size of its buffers after decompression, where shared
// bytes count once per buffer. It reads only frames and allocates nothing. ok is false if the message is rejected
// because of its frames.
func (s *Stream) Expanded(limits Limits) (size, rows int, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // decoding finds the same fault and returns it as an error
		}
	}()
	body, total := int64(0), int64(0)
	for at := (Cursor{}); ; {
		f := s.Next(&at)
		if f == nil {
			return int(body), int(total), true
		}
		if f.Kind == HeadSchema {
			continue
		}
		head, ok := f.Head, true
		if f.Kind == HeadDictionary {
			if head, ok = f.Head.Table(1, ""); !ok {
				return 0, 0, false
			}
		} else {
			count := head.Integer(0, 8, 0, "")
			if total += count; count < 0 || count > int64(limits.Rows) || total > int64(limits.Rows) {
				return 0, 0, false
			}
		}
		n, ok := bodySize(f, head)
		if body += n; !ok || body < 0 || body > int64(limits.Body) { // n may be almost 2^63
			return 0, 0, false
		}
	}
}

// bodySize returns the size of a batch's buffers after decompression. ok is false if ReadChunk would reject them.
func bodySize(f *Frame, head flat.Table) (total int64, ok bool) {
	buffers := head.Vector(2, 16, "")
	_, packed := head.Table(3, "")
	ranges := buffers.Bytes()
	size, outside := sizeOf(ranges, len(f.Body))
	if outside >= 0 || !packed {
		return int64(size), outside < 0
	}
	for i := 0; i < buffers.Len; i++ {
		from, n := le.Uint64(ranges[16*i:]), le.Uint64(ranges[16*i+8:])
		size := (unpackedSize(f.Body[from:from+n]) + 7) &^ 7
		if total += size; total < 0 || size < 0 {
			return 0, false
		}
	}
	return total, true
}
