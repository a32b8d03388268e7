package ipc

// A Span is the rows Lo to Hi-1. A list of spans is ascending and does not overlap.
type Span struct{ Lo, Hi int }

// CountRows returns the number of rows in the spans.
func CountRows(sel []Span) (n int) {
	for _, s := range sel {
		n += s.Hi - s.Lo
	}
	return n
}

// JoinSpans appends rows lo to hi-1 to sel and merges them with its last span if they follow it.
func JoinSpans(sel []Span, lo, hi int) []Span {
	if lo == hi {
		return sel
	}
	if n := len(sel); n > 0 && sel[n-1].Hi == lo {
		sel[n-1].Hi = hi
		return sel
	}
	return append(sel, Span{lo, hi})
}

// Without appends the rows lo to hi-1 that are not in drop, which is ascending, to an empty list.
func Without(sel []Span, lo, hi int, drop []int) []Span {
	for _, d := range drop {
		if d < lo || d >= hi {
			continue
		}
		sel = JoinSpans(sel, lo, d)
		lo = d + 1
	}
	return JoinSpans(sel, lo, hi)
}

// TakeBits returns n selected bits of a bitmap, nil for nil. A single span that begins on a byte is a view, with
// undefined bits after its last.
func TakeBits(b []byte, sel []Span, n int) []byte {
	if b == nil || n == 0 {
		return nil
	}
	if len(sel) == 1 && sel[0].Lo%8 == 0 {
		return b[sel[0].Lo/8 : (sel[0].Hi+7)/8]
	}
	out := make([]byte, (n+7)/8)
	k := 0
	for _, s := range sel {
		for at := s.Lo; at < s.Hi; {
			if bits := uint(at & 7); k&7 == 0 && at+8 <= s.Hi {
				v := b[at>>3] >> bits
				if bits > 0 {
					v |= b[at>>3+1] << (8 - bits)
				}
				out[k>>3] = v
				at, k = at+8, k+8
				continue
			}
			out[k>>3] |= b[at>>3] >> (at & 7) & 1 << (k & 7)
			at, k = at+1, k+1
		}
	}
	return out
}

// AppendInteger appends an integer of 4 or 8 bytes.
func AppendInteger(b []byte, width int, v int64) []byte {
	if width == 4 {
		return le.AppendUint32(b, uint32(v))
	}
	return le.AppendUint64(b, uint64(v))
}
