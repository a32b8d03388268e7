package moments

import (
	"context"
	"fmt"
	"sync"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// sums are those of a set with rows added, beside it: the set changes only once they are known to be numbers, which
// spares a look at each row before.
type sums struct {
	of       [][]float64 // by slot, nil where no row is of it
	labelled []float64
	room     *[]float64 // what they are in
}

var rooms sync.Pool // of *[]float64

// summed adds rows to the sums of their slots, some columns at a time: each sum is in the order of the rows.
func (s *Set) summed(ctx context.Context, x *table, shift []float64, slots int, slotOf func(int) int, w []float64,
	sign float64) (*sums, error) {
	out := &sums{of: make([][]float64, slots)}
	seen, count := make([]bool, slots), 1
	for i := range x.n {
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
	if err := out.add(ctx, x, shift, slotOf, w, sign); err != nil {
		return nil, fmt.Errorf("moments: %w", err)
	}
	if !linalg.AllFinite((*out.room)[:count*s.m]) {
		if err := x.finite(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (u *sums) add(ctx context.Context, x *table, shift []float64, slotOf func(int) int, w []float64,
	sign float64) error {
	workers := workersFor(ctx, x)
	columns := max(64, (x.m/(2*workers)+7)/8*8)
	return parallel.EachOn(context.WithoutCancel(ctx), workers, (x.m+columns-1)/columns, func(p int) {
		from, to := p*columns, min(x.m, (p+1)*columns)
		shift, labelled := shift[from:to], u.labelled[from:to]
		for i := range x.n {
			k, weight := slotOf(i), sign
			if w != nil {
				weight *= w[i]
			}
			row := x.row(i)[from:to]
			sum, shift, labelled := u.of[k][from:to][:len(row)], shift[:len(row)], labelled[:len(row)]
			if k == 0 {
				for j, v := range row {
					sum[j] += float64(weight * (v - shift[j])) // see rankTwo
				}
				continue
			}
			for j, v := range row {
				d := float64(weight * (v - shift[j]))
				sum[j] += d
				labelled[j] += d
			}
		}
	})
}

// keep makes them those of s, which has as many slots. They are not to be used after.
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
