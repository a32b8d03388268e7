package moments

import (
	"context"
	"fmt"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// sums are the sums of a set with rows added. The set changes only when they are known to be finite, so each row need
// not be checked first.
type sums struct {
	of       [][]float64 // by slot, nil if it has no rows
	labelled []float64
	room     *[]float64 // their memory
}

var rooms sync.Pool // of *[]float64

// summed adds rows to the sums of their slots, some columns at a time: each sum is in the order of the rows.
func (s *Set) summed(ctx context.Context, x [][]float64, shift []float64, slots int, slotOf func(int) int) (*sums,
	error) {
	out := &sums{of: make([][]float64, slots)}
	seen, count := make([]bool, slots), 1
	for i := range x {
		if k := slotOf(i); !seen[k] {
			seen[k] = true
			count++
		}
	}
	if out.room, _ = rooms.Get().(*[]float64); out.room == nil || len(*out.room) < count*s.m {
		room := make([]float64, count*s.m)
		out.room = &room
	}
	free := *out.room
	take := func(from []float64) []float64 {
		v := free[:s.m:s.m]
		free = free[s.m:]
		clear(v[copy(v, from):])
		return v
	}
	out.labelled = take(s.labelled)
	for k, is := range seen {
		switch {
		case is && k < len(s.sum):
			out.of[k] = take(s.sum[k])
		case is:
			out.of[k] = take(nil)
		}
	}
	if err := out.add(ctx, x, shift, slotOf); err != nil {
		return nil, fmt.Errorf("moments: %w", err)
	}
	if !linalg.AllFinite((*out.room)[:count*s.m]) {
		if err := finite(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (u *sums) add(ctx context.Context, x [][]float64, shift []float64, slotOf func(int) int) error {
	m := len(shift)
	workers := parallel.WorkersFor(ctx, 8*float64(len(x)*m)) // each number costs some operations
	columns := max(128, (m/workers+7)/8*8)                   // reading fewer of a row at a time is not faster
	return parallel.EachOn(context.WithoutCancel(ctx), workers, (m+columns-1)/columns, func(p int) {
		from, to := p*columns, min(m, (p+1)*columns)
		centred := make([]float64, to-from)
		for i, row := range x {
			floats.SubTo(centred, row[from:to], shift[from:to])
			k := slotOf(i)
			floats.Add(u.of[k][from:to], centred)
			if k > 0 {
				floats.Add(u.labelled[from:to], centred)
			}
		}
	})
}

// keep moves the sums into s, which has as many slots. They must not be used afterwards.
func (u *sums) keep(s *Set) {
	if s.labelled == nil {
		s.labelled = make([]float64, s.m)
	}
	copy(s.labelled, u.labelled)
	for k, v := range u.of {
		if v != nil {
			copy(s.sumOf(k), v)
		}
	}
	rooms.Put(u.room)
}
