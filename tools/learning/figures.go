package main

import (
	"math"
	"slices"
)

// spread is a figure over the seeds.
type spread struct {
	Mean      figure `json:"mean"`
	Deviation figure `json:"deviation"`
	Least     figure `json:"least"`
	Most      figure `json:"most"`
}

// over returns the spread of the values that are not NaN.
func over(values []figure) spread {
	values = slices.DeleteFunc(slices.Clone(values), func(v figure) bool { return math.IsNaN(float64(v)) })
	if len(values) == 0 {
		return spread{none, none, none, none}
	}
	s := spread{Least: slices.Min(values), Most: slices.Max(values)}
	for _, v := range values {
		s.Mean += v / figure(len(values))
	}
	squares := 0.0
	for _, v := range values {
		squares += float64((v - s.Mean) * (v - s.Mean))
	}
	s.Deviation = figure(math.Sqrt(squares / float64(max(1, len(values)-1))))
	return s
}

// span is a range of rows of a run.
type span struct{ from, to int }

// mean returns the mean of a figure of the checkpoints over a span. The figure of a checkpoint counts for the rows up
// to the next one.
func (r run) mean(s span, of func(checkpoint) figure) figure {
	sum, rows := 0.0, 0
	for i, c := range r.Checkpoints {
		next := r.Rows
		if i+1 < len(r.Checkpoints) {
			next = r.Checkpoints[i+1].Row
		}
		if n := min(next, s.to) - max(c.Row, s.from); n > 0 {
			sum += float64(n) * float64(of(c))
			rows += n
		}
	}
	if rows == 0 {
		return none
	}
	return figure(sum / float64(rows))
}

func frozen(c checkpoint) figure { return c.Frozen }
func live(c checkpoint) figure   { return c.Live }
func best(c checkpoint) figure   { return c.Oracle }
func gap(c checkpoint) figure    { return c.Oracle - c.Live }
func level(c checkpoint) figure  { return c.Narrow - c.Live }

// spans returns the rows after each change of a run: the first ones, and those after the time allowed for recovery.
func (s stream) spans(rows int) (early, settled []span) {
	changes := s.changes()
	for i, e := range changes {
		limit := rows
		if i+1 < len(changes) {
			limit = rowOf(changes[i+1].Start, rows)
		}
		start, end := rowOf(e.Start, rows), rowOf(e.End, rows)
		early = append(early, span{start, min(max(end, start+afterRows), limit)})
		if from := end + s.settle; from < limit {
			settled = append(settled, span{from, min(from+afterRows, limit)})
		}
	}
	return early, settled
}

// accuracies has the accuracies of the three models in the rows after changes.
type accuracies struct {
	Frozen spread `json:"frozen"`
	Live   spread `json:"live"`
	Oracle spread `json:"oracle"`
	Gap    spread `json:"gap"`   // oracle - live
	Level  spread `json:"level"` // the same of an oracle with as many outputs as the stage
}

// figures are the results of the runs of a stream.
type figures struct {
	Name    string     `json:"name"`
	Early   accuracies `json:"early"`
	Settled accuracies `json:"settled"`
	Loss    spread     `json:"loss"` // the worst of each run, compared with the model that was live at the last change

	Promotions     spread `json:"promotions"`
	LatePromotions spread `json:"late_promotions"` // after the first quarter
	LostOne        int    `json:"lost_one"`        // promotions that lost more than a point, of all runs
	LostTwo        int    `json:"lost_two"`
	Worst          figure `json:"worst"` // the largest loss of a promotion
	Judged         int    `json:"judged"`

	Stored spread `json:"stored"` // the largest loss with coordinates of the epoch's first model
	Moved  spread `json:"moved"`  // the largest displacement of a probe by one promotion, once the window was full
	// the largest distance of a probe from its coordinates under the epoch's first model, then
	Strayed spread `json:"strayed"`
	Epochs  spread `json:"epochs"`
	// Separate are the epochs that are not recorded as one with others.
	Separate separation `json:"separate"`
	Alarms   spread     `json:"alarms"`
	First    spread     `json:"first"` // rows before the first model
	Widths   []int      `json:"widths"`

	Runs   []run `json:"runs"`
	stream stream
}

// fullWindow is the rows of a window of the defaults.
const fullWindow = 20_000

// summarise computes the figures of the runs of a stream.
func summarise(s stream, runs []run) *figures {
	f := &figures{Name: s.Name, Runs: runs, stream: s, Worst: none}
	f.Early = f.accuracies(func(s stream, rows int) []span { early, _ := s.spans(rows); return early })
	f.Settled = f.accuracies(func(s stream, rows int) []span { _, settled := s.spans(rows); return settled })
	each := func(of func(run) figure) spread {
		var values []figure
		for _, r := range runs {
			values = append(values, of(r))
		}
		return over(values)
	}
	f.Loss = each(func(r run) figure {
		return greatest(r.Checkpoints, func(c checkpoint) figure { return c.Loss })
	})
	f.Promotions = each(func(r run) figure { return figure(len(r.Promotions)) })
	f.LatePromotions = each(func(r run) figure {
		late := figure(0)
		for _, p := range r.Promotions {
			if p.Row > r.Rows/4 {
				late++
			}
		}
		return late
	})
	f.Stored = each(func(r run) figure {
		return greatest(r.Promotions, func(p promotion) figure { return p.After - p.Stored })
	})
	full := func(of func(promotion) figure) func(r run) figure {
		return func(r run) figure {
			return greatest(r.Promotions, func(p promotion) figure {
				if p.Row <= fullWindow {
					return none
				}
				return of(p)
			})
		}
	}
	f.Moved = each(full(func(p promotion) figure { return p.Moved }))
	f.Strayed = each(full(func(p promotion) figure { return p.Strayed }))
	f.Epochs = each(func(r run) figure { return figure(r.Epochs) })
	for _, r := range runs {
		f.Separate.add(r.swaps(), r.SameAs)
	}
	f.Alarms = each(func(r run) figure { return figure(r.Alarms) })
	f.First = each(func(r run) figure { return figure(r.First) })
	for _, r := range runs {
		for _, p := range r.Promotions {
			lost := p.Before - p.After
			f.Judged++
			if lost > 0.01 {
				f.LostOne++
			}
			if lost > 0.02 {
				f.LostTwo++
			}
			f.Worst = larger(f.Worst, lost)
		}
		for _, w := range r.Widths {
			if !slices.Contains(f.Widths, w) {
				f.Widths = append(f.Widths, w)
			}
		}
	}
	return f
}

func (f *figures) accuracies(spans func(stream, int) []span) accuracies {
	each := func(of func(checkpoint) figure) spread {
		var values []figure
		for _, r := range f.Runs {
			sum, all := figure(0), spans(f.stream, r.Rows)
			for _, s := range all {
				sum += r.mean(s, of) / figure(len(all))
			}
			if len(all) == 0 {
				sum = none
			}
			values = append(values, sum)
		}
		return over(values)
	}
	return accuracies{Frozen: each(frozen), Live: each(live), Oracle: each(best), Gap: each(gap), Level: each(level)}
}

// greatest returns the largest of the figures that are not NaN.
func greatest[T any](all []T, of func(T) figure) figure {
	most := none
	for _, one := range all {
		most = larger(most, of(one))
	}
	return most
}

// larger returns the larger of two figures; NaN does not count.
func larger(a, b figure) figure {
	if b > a || math.IsNaN(float64(a)) {
		return b
	}
	return a
}
