package window

import "math/bits"

// A stretch is a range of positions of about stretchRows rows: that many rows of a message, or several small messages.
// Rows that are next to each other may be copies, or depend on each other. So rows are held out by stretch, and no row
// is judged by references of its own stretch or the two next to it.
//
// The stretch of a row depends on its position and the number of rows of its message alone. Messages next to each other
// are taken to have about as many rows.

// stretchRows is the number of rows of a stretch. Longer stretches would hold out too many or too few of the 250 rows
// of a first model.
const stretchRows = 16

// stretch is the place of a row among the stretches of a stream in which all messages have as many rows as its own.
type stretch struct {
	index  uint64
	pieces uint64 // stretches per message; 0: a stretch has several messages
	rows   int    // of a piece
	shift  int    // the number of messages of a stretch is 2^shift
}

// stretchAt returns the stretch of a row of a message with that many rows.
func stretchAt(p Position, messageRows int) stretch {
	n := max(messageRows, 1)
	if n < stretchRows {
		shift := bits.Len(uint(stretchRows/n)) - 1
		return stretch{index: p.Seq >> shift, shift: shift}
	}
	pieces := (n + stretchRows/2) / stretchRows
	s := stretch{pieces: uint64(pieces), rows: (n + pieces - 1) / pieces}
	s.index = p.Seq*s.pieces + uint64(min(p.Row/s.rows, pieces-1))
	return s
}

// isHeldOut reports whether a stretch is held out. Of each 1/holdout stretches in a row one is drawn, so that few rows
// have their share of held-out ones too. The creation time of the stream does not enter: the same messages in a
// recreated stream are held out again.
func (s stretch) isHeldOut(holdout uint64) bool {
	group, begin := bits.Mul64(s.index, holdout) // the stretch covers holdout of the line from begin on
	if at := mix(drawHeld ^ mix(group)); begin <= at && at-begin < holdout {
		return true
	}
	end, next := bits.Add64(begin, holdout, 0)
	return next > 0 && mix(drawHeld^mix(group+1)) < end
}

// neighbourhood returns the range of positions, from inclusive, to exclusive, of the stretch of a row at p and the two
// next to it.
func (s stretch) neighbourhood(p Position) (from, to Position) {
	from, to = Position{Created: p.Created}, Position{Created: p.Created}
	if s.pieces == 0 {
		from.Seq, to.Seq = (max(s.index, 1)-1)<<s.shift, (s.index+2)<<s.shift
		return from, to
	}
	piece := int(s.index - p.Seq*s.pieces)
	switch {
	case piece > 0:
		from.Seq, from.Row = p.Seq, (piece-1)*s.rows
	case p.Seq > 0:
		from.Seq, from.Row = p.Seq-1, (int(s.pieces)-1)*s.rows
	}
	if piece < int(s.pieces)-1 {
		to.Seq, to.Row = p.Seq, (piece+2)*s.rows
	} else {
		to.Seq, to.Row = p.Seq+1, s.rows
	}
	return from, to
}
