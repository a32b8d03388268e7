package window

import "cmp"

// Position is the position of a row: the creation time of its stream in nanoseconds, the sequence number of its
// message, and its index in the message. Rows of a stream that was created later come after.
type Position struct {
	Created int64  `json:"created"`
	Seq     uint64 `json:"seq"`
	Row     int    `json:"row"`
}

// Compare is -1, 0 or 1 if p is before, at or after q.
func (p Position) Compare(q Position) int {
	switch { // without cmp.Or, which would compare all three
	case p.Created != q.Created:
		return cmp.Compare(p.Created, q.Created)
	case p.Seq != q.Seq:
		return cmp.Compare(p.Seq, q.Seq)
	}
	return cmp.Compare(p.Row, q.Row)
}

// draw is a pseudorandom number of the position in its stream, uniform in [0, 2^64), independent for each purpose.
func (p Position) draw(purpose uint64) uint64 {
	return mix(mix(mix(purpose)^p.Seq) ^ uint64(p.Row))
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA
// 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// The purposes of draws.
const (
	drawHeld uint64 = iota + 1
	drawBorder
	drawReplace
	drawStats
	drawSample
	drawThin
)

// drawLimit is the bound below which a draw falls with probability p.
func drawLimit(p float64) uint64 {
	if p >= 1 {
		return 1<<64 - 1
	}
	return uint64(p * (1 << 64))
}

// isDrawn reports whether a row is held out for itself, as rows of summaries of version 1 are.
func (p Position) isDrawn(holdout uint64) bool {
	h := mix(drawHeld ^ uint64(p.Created))
	h = mix(h ^ p.Seq)
	return mix(h^uint64(p.Row)) < holdout
}
