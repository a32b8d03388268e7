package arrowio

import "github.com/embedd/embedd/arrowio/wire"

// metadataReserve is what a part keeps free for the metadata that is added to it. It is fixed, because split points may
// not depend on that metadata (Invariant 2); a small limit keeps a quarter.
const metadataReserve = 4096

// Split writes parts of at most limit bytes each, in the order of the rows; one part when all fits. meta makes the
// metadata of a part, counted from 0. Where it splits depends on the input, the configuration and the dimension,
// never on the metadata or on the numbers in Y. A single row over the limit is too_wide, with the row named. The
// error is always an *Error.
func (e *Encoder) Split(r Reduced, limit int, meta func(part, parts int) []wire.Pair) (msgs [][]byte, err error) {
	defer rescue(&err)
	d, whole, fail := e.prepare(r)
	if fail != nil {
		return nil, fail
	}
	s := splitter{e: e, r: r, draft: d, maxBytes: limit - min(metadataReserve, limit/4) - d.size(r.Message) - 8}
	if fail := s.split(whole); fail != nil {
		return nil, fail
	}
	for k, parts := range s.out {
		msg, fail := e.write(r.Message, d, parts, meta(k, len(s.out)), e.codec)
		if fail != nil {
			return nil, fail
		}
		if len(msg) > limit {
			return nil, fault(wire.TooLarge, "part %d of %d has %d bytes with its metadata, and the limit is %d", k+1,
				len(s.out), len(msg), limit).
				hint("raise the server's max_payload, or add less metadata")
		}
		msgs = append(msgs, msg)
	}
	return msgs, nil
}

type splitter struct {
	e        *Encoder
	r        Reduced
	draft    *draft
	maxBytes int // bytes for data frames in one part
	out      [][]*part
}

func sizeOf(parts []*part) (n int) {
	for _, p := range parts {
		n += p.size()
	}
	return n
}

// split gathers batches as long as they fit and divides those that do not.
func (s *splitter) split(whole []*part) *Error {
	if sizeOf(whole) <= s.maxBytes {
		s.out = [][]*part{whole}
		return nil
	}
	var open []*part
	used := 0
	for k, p := range whole {
		if p.rows == 0 {
			continue // with rows elsewhere, an empty batch says nothing
		}
		if n := p.size(); n <= s.maxBytes {
			if used+n > s.maxBytes {
				s.out, open, used = append(s.out, open), nil, 0
			}
			open, used = append(open, p), used+n
			continue
		}
		if open != nil {
			s.out, open, used = append(s.out, open), nil, 0
		}
		if fail := s.divide(k, p, 0, p.batch.rows); fail != nil {
			return fail
		}
	}
	if open != nil {
		s.out = append(s.out, open)
	}
	if len(s.out) == 0 {
		return fault(wire.TooLarge, "the schema alone does not fit into a part").hint(
			"raise the server's max_payload, or keep fewer columns")
	}
	return nil
}

// divide cuts the rows lo to hi-1 of batch k, of which p is what leaves, into as many equal pieces as their size asks
// for.
func (s *splitter) divide(k int, p *part, lo, hi int) *Error {
	b := p.batch
	size := p.size()
	if size <= s.maxBytes {
		s.out = append(s.out, []*part{p})
		return nil
	}
	if p.rows == 1 {
		sel := without(lo, hi, s.r.drop(k))
		e := fault(wire.TooWide, "one row comes to %d bytes with its schema and dictionaries, and a part may have %d",
			size+s.draft.size(s.r.Message), s.maxBytes+s.draft.size(s.r.Message)).
			hint("raise the server's max_payload, or keep fewer columns").at(sel[0].lo)
		e.Batch = k
		return e
	}
	pieces := 2
	if s.maxBytes > 0 {
		pieces = max(2, min(hi-lo, (size+s.maxBytes-1)/s.maxBytes))
	}
	for j := 0; j < pieces; j++ {
		from, to := lo+(hi-lo)*j/pieces, lo+(hi-lo)*(j+1)/pieces
		sel := without(from, to, s.r.drop(k))
		if len(sel) == 0 {
			continue
		}
		piece, fail := s.e.part(s.draft, b, sel, s.r.Y[k], s.r.Dim)
		if fail != nil {
			return fail
		}
		if fail := s.divide(k, piece, from, to); fail != nil {
			return fail
		}
	}
	return nil
}
