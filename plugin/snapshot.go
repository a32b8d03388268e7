package plugin

import (
	"github.com/embedd/embedd/model/moments"
)

// snapshot is the window at one moment, copied: what a fit sees while the window goes on.
type snapshot struct {
	m       int
	rows    int
	classes []string        // sorted; nil: no labels
	part    [2]rowSet       // to train on, held out; each in order of arrival
	stats   [2]*moments.Set // of the rows to train on and of all rows; nil: fit from rows
	err     error           // of the sums in stats: no fit can be made of this snapshot
	oldest  uint64          // sequence number to read again from, for this window
	last    uint64          // sequence number of the newest message in it
}

// rowSet is n rows of m features, row-major, with their classes, their places in the order of arrival and the
// sequence numbers of their messages.
type rowSet struct {
	x     []float64
	y     []int
	order []int
	seq   []uint64 // of the message; nil in a merged set
}

// all merges the two parts back into the order of arrival: the order is part of what a model is a function of.
func (s *snapshot) all() rowSet {
	a, b := s.part[0], s.part[1]
	out := rowSet{x: make([]float64, 0, len(a.x)+len(b.x)), y: make([]int, 0, s.rows)}
	for i, j := 0, 0; i < len(a.y) || j < len(b.y); {
		if j == len(b.y) || i < len(a.y) && a.order[i] < b.order[j] {
			out.x, out.y = append(out.x, a.x[i*s.m:(i+1)*s.m]...), append(out.y, a.y[i])
			i++
		} else {
			out.x, out.y = append(out.x, b.x[j*s.m:(j+1)*s.m]...), append(out.y, b.y[j])
			j++
		}
	}
	return out
}

// since is the rows of messages after a sequence number; all of them where there are none.
func (p rowSet) since(seq uint64, m int) rowSet {
	var out rowSet
	for i, s := range p.seq {
		if s > seq {
			out.x, out.y = append(out.x, p.x[i*m:(i+1)*m]...), append(out.y, p.y[i])
		}
	}
	if len(out.y) == 0 {
		return p
	}
	return out
}

// snapshotOf is a snapshot of rows without labels, all to train on.
func snapshotOf(x []float64, m int) snapshot {
	s := snapshot{m: m, rows: len(x) / m}
	s.part[0].x = x
	s.part[0].y = make([]int, s.rows)
	for i := range s.rows {
		s.part[0].order = append(s.part[0].order, i)
	}
	return s
}
