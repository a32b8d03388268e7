package window

import "cmp"

// Position is the place of a row: in which stream, told by the time of its making in nanoseconds, in which message,
// and which row of that. Positions are ordered: a stream that was made later comes after.
type Position struct {
	Created int64  `json:"created"`
	Seq     uint64 `json:"seq"`
	Row     int    `json:"row"`
}

// Compare is -1, 0 or 1 as p is before, at or after q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Created, q.Created), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Row, q.Row))
}

// draw is a number of the position, uniform in [0, 2^64), independent for another purpose.
func (p Position) draw(purpose uint64) uint64 {
	h := mix(purpose ^ uint64(p.Created))
	h = mix(h ^ p.Seq)
	return mix(h ^ uint64(p.Row))
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA
// 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// The purposes of a draw.
const (
	drawHeld uint64 = iota + 1
	drawBorder
	drawMakesWay
	drawUsual
	drawCarried
	drawThinned
)

// share turns a probability into the bound that a draw stays below as often.
func share(p float64) uint64 {
	if p >= 1 {
		return 1<<64 - 1
	}
	return uint64(p * (1 << 64))
}
