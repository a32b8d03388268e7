package arrowio

import (
	"slices"

	"github.com/embedd/embedd/arrowio/internal/ipc"
	"github.com/embedd/embedd/arrowio/internal/rewrite"
	"github.com/embedd/embedd/arrowio/wire"
)

// Split writes the output as messages of at most limit bytes each, in row order; one message if everything fits. meta
// returns the metadata of a part, counted from 0. If there are several parts, each has only the dictionary entries that
// its rows use. The split points depend on the input, the configuration and the dimension, never on the metadata or the
// values of Y.
//
// A row that alone exceeds the limit is wire.TooWide; the error names it, and further ones in Also. Every part repeats
// the schema and shared dictionary entries: if the parts together exceed both Limits.Body and twice the undivided
// output plus 64 KiB, the error is wire.TooLarge and nothing is written. The error is always an *Error.
func (e *Encoder) Split(r Reduced, limit int, meta func(part, parts int) []wire.Pair) (msgs [][]byte, err error) {
	defer rescue(&err)
	if e.out.Format.IsText() {
		return splitText(e, r, limit, meta), nil
	}
	whole := e.outputMemory()
	defer e.reuse(whole)
	form := e.prepare(r, whole)
	s := splitter{e: e, r: r, form: form, maxBytes: form.BodyLimit(limit)}
	if whole.Size <= s.maxBytes {
		return [][]byte{s.write(&whole.Bundle, limit, 0, 1, meta)}, nil
	}
	s.maxTotal = max(2*(form.SchemaSize()+whole.Size)+maxRepeated, r.Message.decoder.limits.Body)
	s.split(whole.Parts)
	parts := make([][]byte, len(s.out))
	for k, g := range s.out {
		g.Finish()
		parts[k] = s.write(g, limit, k, len(s.out), meta)
		s.out[k] = nil
	}
	return parts, nil
}

// write encodes one of several parts.
func (s *splitter) write(g *rewrite.Bundle, limit, part, parts int, meta func(part, parts int) []wire.Pair) []byte {
	msg := s.form.Write(&s.e.buffers, g, meta(part, parts), s.e.codec)
	if len(msg) > limit {
		panic(wire.Errorf(wire.TooLarge, "part %d of %d has %d bytes with its metadata, and the limit is %d", part+1, parts,
			len(msg), limit).WithHint("raise the server's max_payload, or add less metadata"))
	}
	return msg
}

// maxRepeated is how many bytes the parts of an output may take on top of twice its length.
const maxRepeated = 64 << 10

type splitter struct {
	e        *Encoder
	r        Reduced
	form     *rewrite.Form
	maxBytes int // limit of a part's data frames
	maxTotal int // limit of all parts together
	total    int
	out      []*rewrite.Bundle
	wide     []*Error // rows that exceed the limit alone
}

// maxWide is the maximum number of rows that an error names as too wide.
const maxWide = 128

// close adds a bundle to the parts.
func (s *splitter) close(g *rewrite.Bundle) {
	if len(s.wide) > 0 {
		return // the split has failed; only too wide rows are still collected
	}
	if s.total += s.form.SchemaSize() + g.Size; s.total > s.maxTotal {
		panic(wire.Errorf(wire.TooLarge,
			"the first %d parts of the output take %d bytes, because each repeats schema and dictionaries; the limit is %d",
			len(s.out)+1, s.total, s.maxTotal).
			WithHint("send fewer rows a message, long texts as plain strings, or raise the server's max_payload or " +
				"limits.expanded"))
	}
	s.out = append(s.out, g)
}

// split combines batches while they fit into a part, and divides those that do not fit.
func (s *splitter) split(whole []*rewrite.Part) {
	var open *rewrite.Bundle
	for k, p := range whole {
		if p.Rows == 0 {
			continue // other batches have rows, so an empty one is not needed
		}
		alone := s.form.Cut([]*rewrite.Part{p}, s.r.Message.dicts)
		if open != nil && alone.Size <= s.maxBytes {
			grown := s.form.Cut(append(slices.Clip(open.Parts), p), s.r.Message.dicts)
			if grown.Size <= s.maxBytes {
				open = grown
				continue
			}
		}
		if open != nil {
			s.close(open)
			open = nil
		}
		if alone.Size <= s.maxBytes {
			open = alone
			continue
		}
		s.divide(k, alone, 0, p.Batch.Rows)
	}
	if open != nil {
		s.close(open)
	}
	if len(s.wide) > 0 {
		panic(s.tooWide())
	}
	if len(s.out) == 0 {
		panic(wire.Errorf(wire.TooLarge, "the schema alone does not fit into a part").WithHint(
			"raise the server's max_payload or the stream's max_msg_size, or keep fewer columns"))
	}
}

func (s *splitter) tooWide() *Error {
	first := *s.wide[0]
	first.Also = s.wide[1:]
	return &first
}

// divide splits rows lo to hi-1 of batch k into equal pieces. g is the output of these rows.
func (s *splitter) divide(k int, g *rewrite.Bundle, lo, hi int) {
	p := g.Parts[0]
	if g.Size <= s.maxBytes {
		s.close(g)
		return
	}
	if p.Rows == 1 {
		sel := ipc.Without(nil, lo, hi, s.r.drop(k))
		e := wire.Errorf(wire.TooWide, "one row takes %d bytes with its schema and dictionaries, and a part may take %d",
			g.Size+s.form.SchemaSize(), s.maxBytes+s.form.SchemaSize()).
			WithHint("raise the server's max_payload or the stream's max_msg_size, or keep fewer columns").At(sel[0].Lo)
		e.Batch = k
		if s.wide = append(s.wide, e); len(s.wide) == maxWide {
			panic(s.tooWide())
		}
		return
	}
	pieces := 2
	if s.maxBytes > 0 {
		pieces = max(2, min(hi-lo, (g.Size+s.maxBytes-1)/s.maxBytes))
	}
	for j := 0; j < pieces; j++ {
		from, to := lo+(hi-lo)*j/pieces, lo+(hi-lo)*(j+1)/pieces
		sel := ipc.Without(nil, from, to, s.r.drop(k))
		if len(sel) == 0 {
			continue
		}
		piece := s.form.Part(p.Batch, sel, s.r.Y[k], s.r.Dim)
		g := s.form.Cut([]*rewrite.Part{piece}, s.r.Message.dicts)
		s.divide(k, g, from, to)
	}
}
