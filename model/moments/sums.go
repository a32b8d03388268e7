package moments

import (
	"context"
	"fmt"
	"sync"

	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/parallel"
)

// sums are those of a set with rows added. The set changes only when they are known to be finite, which saves checking
// each row first.
type sums struct {
	of       [][]float64 // by slot, nil if it has no rows
	labelled []float64
	room     *[]float64 // their memory
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
	workers := parallel.WorkersFor(ctx, 8*float64(x.n*x.m)) // each number costs some operations
	columns := max(128, (x.m/workers+7)/8*8)                // reading fewer of a row at a time is not faster
	return parallel.EachOn(context.WithoutCancel(ctx), workers, (x.m+columns-1)/columns, func(p int) {
		from, to := p*columns, min(x.m, (p+1)*columns)
		labelled, weighed, nothing := u.labelled[from:to], make([]float64, to-from), make([]float64, to-from)
		for i := range x.n {
			k, weight := slotOf(i), sign
			if w != nil {
				weight *= w[i]
			}
			row, about := x.row(i)[from:to], shift[from:to]
			if weight != 1 {
				for j, v := range row {
					weighed[j] = float64(weight * (v - about[j])) // see rankTwo
				}
				row, about = weighed, nothing
			}
			if k == 0 {
				addTo(u.of[k][from:to], row, about)
			} else {
				addToBoth(u.of[k][from:to], labelled, row, about)
			}
		}
	})
}

// addTo adds x - about to sum, four numbers per iteration: one per iteration takes twice the time.
func addTo(sum, x, about []float64) {
	for ; len(x) >= 4 && len(about) >= 4 && len(sum) >= 4; sum, x, about = sum[4:], x[4:], about[4:] {
		sum[0] += x[0] - about[0]
		sum[1] += x[1] - about[1]
		sum[2] += x[2] - about[2]
		sum[3] += x[3] - about[3]
	}
	for j, v := range x {
		sum[j] += v - about[j]
	}
}

// addToBoth adds x - about to two sums.
func addToBoth(sum, all, x, about []float64) {
	for len(x) >= 4 && len(about) >= 4 && len(sum) >= 4 && len(all) >= 4 {
		d0, d1, d2, d3 := x[0]-about[0], x[1]-about[1], x[2]-about[2], x[3]-about[3]
		sum[0] += d0
		sum[1] += d1
		sum[2] += d2
		sum[3] += d3
		all[0] += d0
		all[1] += d1
		all[2] += d2
		all[3] += d3
		sum, all, x, about = sum[4:], all[4:], x[4:], about[4:]
	}
	for j, v := range x {
		d := v - about[j]
		sum[j] += d
		all[j] += d
	}
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
