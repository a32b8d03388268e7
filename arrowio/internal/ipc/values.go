package ipc

import (
	"math/bits"
	"slices"
	"sync"
	"unicode/utf8"

	avx "github.com/segmentio/asm/utf8"

	"github.com/embedd/embedd/arrowio/wire"
)

// ranges checks the values of field i, of fixed width, except those of nulls.
func (c *Chunk) ranges(i, rows int) *wire.Error {
	f := &c.Layout.Fields[i]
	switch f.Type {
	case TypeDecimal:
		return c.decimals(i, rows)
	case TypeDate, TypeTime:
		const day = 24 * 60 * 60
		if f.Type == TypeDate && f.Unit == 0 {
			return nil // a number of days
		}
		limit := [...]int64{day, day * 1e3, day * 1e6, day * 1e9}[f.Unit]
		valid := c.Valid(i)
		b := c.Buffer(i, 1)
		for k := range rows {
			v := int64(0)
			if f.Width == 4 {
				v = int64(int32(le.Uint32(b[4*k:])))
			} else {
				v = int64(le.Uint64(b[8*k:]))
			}
			switch {
			case f.Type == TypeDate && v%limit == 0 || f.Type == TypeTime && v >= 0 && v < limit:
			case valid != nil && valid[k>>3]>>(k&7)&1 == 0:
			case f.Type == TypeDate:
				return wire.Errorf(wire.Malformed, "a date of %d milliseconds, which is no whole number of days", v).WithHint(
					"send a timestamp, or whole days").At(k)
			default:
				return wire.Errorf(wire.Malformed, "a time of day of %d, and the limit is %d", v, limit).WithHint(
					"send a timestamp or a duration, or a time of one day").At(k)
			}
		}
	}
	return nil
}

// powersOfTen are 10^0 to 10^76, least significant word first.
var powersOfTen = sync.OnceValue(func() *[77][4]uint64 {
	var p [77][4]uint64
	p[0][0] = 1
	for k := 1; k < len(p); k++ {
		carry := uint64(0)
		for w := range p[k] {
			hi, lo := bits.Mul64(p[k-1][w], 10)
			var over uint64
			p[k][w], over = bits.Add64(lo, carry, 0)
			carry = hi + over
		}
	}
	return &p
})

// decimals checks that the values of field i have at most the digits of its type.
func (c *Chunk) decimals(i, rows int) *wire.Error {
	f := &c.Layout.Fields[i]
	limit := &powersOfTen()[f.Digits]
	valid := c.Valid(i)
	b := c.Buffer(i, 1)
	for k := range rows {
		if magnitudeBelow(b[k*f.Width:(k+1)*f.Width], limit) || valid != nil && valid[k>>3]>>(k&7)&1 == 0 {
			continue
		}
		return wire.Errorf(wire.Malformed, "a decimal of more than %d digits", f.Digits).WithHint(
			"declare a decimal type of more digits").At(k)
	}
	return nil
}

// Magnitude returns the magnitude of the two's complement number in b, of 4 to 32 bytes, least significant word first.
func Magnitude(b []byte) (v [4]uint64, isNegative bool) {
	words := max(1, len(b)/8)
	if len(b) == 4 {
		v[0] = uint64(int32(le.Uint32(b)))
	} else {
		for w := range words {
			v[w] = le.Uint64(b[8*w:])
		}
	}
	if isNegative = int64(v[words-1]) < 0; isNegative {
		carry := uint64(1)
		for w := range words {
			v[w], carry = bits.Add64(^v[w], 0, carry)
		}
	}
	return v, isNegative
}

// magnitudeBelow reports whether the two's complement number in b, of 4 to 32 bytes, is between -limit and limit.
func magnitudeBelow(b []byte, limit *[4]uint64) bool {
	v, _ := Magnitude(b)
	for w := len(v) - 1; w >= 0; w-- {
		if v[w] != limit[w] {
			return v[w] < limit[w]
		}
	}
	return false
}

func notUTF8(row int) *wire.Error {
	return wire.Errorf(wire.Malformed, "a text that is not UTF-8").WithHint("send UTF-8, or a binary column").At(row)
}

// texts checks that the texts of field i are UTF-8. First it checks all of them as one: bytes of nulls can make that
// fail but not succeed.
func (c *Chunk) texts(i, rows int) *wire.Error {
	if rows == 0 {
		return nil
	}
	w := c.Layout.Fields[i].Width
	o := c.Buffer(i, 1)
	data := c.Buffer(i, 2)[:Offset(o, w, rows)]
	if all := avx.Validate(data[Offset(o, w, 0):]); all.IsASCII() || all.IsUTF8() && textsBeginRunes(o, w, rows, data) {
		return nil
	}
	valid := c.Valid(i)
	for k := range rows {
		if (valid == nil || valid[k>>3]>>(k&7)&1 == 1) && !avx.Valid(data[Offset(o, w, k):Offset(o, w, k+1)]) {
			return notUTF8(k)
		}
	}
	return nil
}

// textsBeginRunes reports whether no text begins inside a character.
func textsBeginRunes(offsets []byte, width, rows int, data []byte) bool {
	for k := 1; k < rows; k++ {
		if at := Offset(offsets, width, k); at < int64(len(data)) && !utf8.RuneStart(data[at]) {
			return false
		}
	}
	return true
}

// CheckTexts checks that the texts of a binary or view field have at most limit bytes.
func (c *Chunk) CheckTexts(i, limit int) *wire.Error {
	f := &c.Layout.Fields[i]
	if f.Kind != KindBinary && f.Kind != KindView || f.Kind == KindBinary && c.shortTexts(i, limit) {
		return nil
	}
	for row := range c.Rows {
		if c.IsNull(i, row) {
			continue
		}
		if n := len(c.binary(i, row)); n > limit {
			return wire.Errorf(wire.TooLarge, "a text of %d bytes, and the limit for labels and keys is %d", n, limit).
				WithHint("send a short name").At(row)
		}
	}
	return nil
}

// shortTexts is a fast check, in which nulls count too.
func (c *Chunk) shortTexts(i, limit int) bool {
	w := c.Layout.Fields[i].Width
	o := c.Buffer(i, 1)
	for row := range c.Rows {
		if Offset(o, w, row+1)-Offset(o, w, row) > int64(limit) {
			return false
		}
	}
	return true
}

// inView is the most bytes of a value that are inside its view.
const inView = 12

// views checks the 16-byte views of field i: a length, then up to 12 bytes of data and zeros, or a prefix, the number
// of a data buffer and an offset in it.
func (c *Chunk) views(i int, rows int64) *wire.Error {
	b := c.Buffer(i, 1)
	if int64(len(b)/16) < rows {
		return short("the list of views", int64(len(b)), rows*16)
	}
	isText := c.Layout.Fields[i].Type == TypeUtf8View
	first, n := c.Data(i)
	valid := c.Valid(i)
	long := 0
	for k := range int(rows) {
		if valid != nil && valid[k>>3]>>(k&7)&1 == 0 {
			continue
		}
		v := b[16*k : 16*k+16]
		size := int32(le.Uint32(v))
		if size >= 0 && size <= inView {
			for _, x := range v[4+size:] {
				if x != 0 {
					return Malformed("a view of %d bytes with others than zeros behind them", size).At(k)
				}
			}
			if isText && !avx.Valid(v[4:4+size]) {
				return notUTF8(k)
			}
			continue
		}
		which, from := int32(le.Uint32(v[8:])), int32(le.Uint32(v[12:]))
		if size < 0 || which < 0 || int(which) >= n || from < 0 ||
			int64(from)+int64(size) > int64(len(c.Buf(first+int(which)))) {
			return Malformed("a view of %d bytes from %d of data buffer %d is outside its %d buffers", size,
				from, which, n).At(k)
		}
		if data := c.Buf(first + int(which))[from:]; le.Uint32(v[4:]) != le.Uint32(data) {
			return Malformed("a view that begins with %x, and its data with %x", v[4:8], data[:4]).At(k)
		}
		long++
	}
	if !isText || long == 0 {
		return nil
	}
	return c.longTexts(i, int(rows), long)
}

// longTexts checks that the texts of view field i that are in its data buffers are UTF-8. Views may share bytes: each
// byte is read once or twice, because a message would otherwise cost as many passes over its data as it has rows.
func (c *Chunk) longTexts(i, rows, long int) *wire.Error {
	first, buffers := c.Data(i)
	all := true
	for k := range buffers {
		all = all && avx.Valid(c.Buf(first+k))
	}
	valid := c.Valid(i)
	views := c.Buffer(i, 1)
	type view struct{ buffer, from, to, row int }
	var list []view
	if !all {
		list = make([]view, 0, long)
	}
	for k := range rows {
		v := views[16*k : 16*k+16]
		size := int(int32(le.Uint32(v)))
		if size <= inView || valid != nil && valid[k>>3]>>(k&7)&1 == 0 {
			continue
		}
		t := view{int(le.Uint32(v[8:])), int(le.Uint32(v[12:])), 0, k}
		t.to = t.from + size
		if !all {
			list = append(list, t)
		} else if data := c.Buf(first + t.buffer); !isBoundary(data, t.from) || !isBoundary(data, t.to) {
			return notUTF8(k)
		}
	}
	slices.SortFunc(list, func(a, b view) int {
		if a.buffer != b.buffer {
			return a.buffer - b.buffer
		}
		return a.from - b.from
	})
	buffer, done := -1, 0 // data of the buffer before done, of texts of the list, is UTF-8
	for _, t := range list {
		if t.buffer != buffer {
			buffer, done = t.buffer, 0
		}
		data := c.Buf(first + buffer)
		if t.from < done && !utf8.RuneStart(data[t.from]) || t.to < done && !utf8.RuneStart(data[t.to]) {
			return notUTF8(t.row)
		}
		if t.to > done && !avx.Valid(data[max(t.from, done):t.to]) {
			return notUTF8(t.row)
		}
		done = max(done, t.to)
	}
	return nil
}

// isBoundary reports whether a character of a valid text begins or ends at this position.
func isBoundary(data []byte, at int) bool { return at == len(data) || utf8.RuneStart(data[at]) }
