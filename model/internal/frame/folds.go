package frame

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// MaxValidated is the number of rows that cross-validation uses; more cost time and change nothing.
const MaxValidated = 1500

// Folds deals rows to count folds: classes in sorted order, rows in their own; row j of class c goes to fold (j + rows
// of earlier classes) mod count. If rows have groups, groups are dealt instead, in a drawn order. Classes with fewer
// rows than folds train in every fold (fold -1). Of more than limit rows it takes evenly spaced ones, stratified by
// class. Rounds after 0 deal in another order. fold is nil if fewer than 2 classes can be scored.
func Folds(p *Rows, limit, count, round int) (pick, fold []int) {
	byClass := p.ByClass()
	order := slices.SortedFunc(maps.Keys(byClass), func(a, b int) int {
		return cmp.Or(strings.Compare(p.Classes[a], p.Classes[b]), a-b)
	})
	at, scored, earlier := map[int]int{}, 0, 0 // fold of each row
	share := Shares(p.N, limit)
	for _, c := range order {
		rows := byClass[c]
		rows = Spaced(rows, max(min(count, len(rows)), share(len(rows))))
		if len(rows) >= count {
			scored++
		}
		if round > 0 {
			draw := rand.New(rand.NewPCG(uint64(round), uint64(earlier)))
			draw.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		}
		for j, r := range rows {
			if at[r] = (j + earlier) % count; len(rows) < count {
				at[r] = -1
			}
		}
		earlier += len(rows)
	}
	if scored < 2 {
		return nil, nil
	}
	pick = slices.Sorted(maps.Keys(at)) // of equally near neighbours the earlier row wins
	for _, r := range pick {
		fold = append(fold, at[r])
	}
	if p.Groups != nil && !dealGroups(p, pick, fold, count, round) {
		return nil, nil
	}
	return pick, fold
}

// ExplainFolds says why Folds deals no rows to three folds.
func ExplainFolds(p *Rows) string {
	if p.Groups != nil {
		return "fewer than 2 classes have the 3 rows, in 2 groups, that cross-validation needs"
	}
	return "fewer than 2 classes have the 3 rows that cross-validation needs"
}

// dealGroups deals groups of rows to count folds, except rows that train in every fold. A class that is then in one
// fold alone trains in every fold too. It reports whether 2 classes can be scored.
func dealGroups(p *Rows, pick, fold []int, count, round int) bool {
	at := map[int]int{} // fold of each group
	for i, r := range pick {
		if fold[i] >= 0 {
			at[p.Groups[r]] = 0
		}
	}
	groups := slices.Sorted(maps.Keys(at))
	draw := rand.New(rand.NewPCG(uint64(round), uint64(len(groups))))
	draw.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	for k, g := range groups {
		at[g] = k % count
	}
	folds := map[int]map[int]bool{} // of each class
	for i, r := range pick {
		if fold[i] < 0 {
			continue
		}
		fold[i] = at[p.Groups[r]]
		if folds[p.Y[r]] == nil {
			folds[p.Y[r]] = map[int]bool{}
		}
		folds[p.Y[r]][fold[i]] = true
	}
	scored := 0
	for _, in := range folds {
		if len(in) > 1 {
			scored++
		}
	}
	for i, r := range pick {
		if fold[i] >= 0 && len(folds[p.Y[r]]) < 2 {
			fold[i] = -1
		}
	}
	return scored >= 2
}

// HeldOut are the training rows and the test rows of fold f.
func HeldOut(pick, fold []int, f int) (train, test []int) {
	for i, at := range pick {
		if fold[i] == f {
			test = append(test, at)
		} else {
			train = append(train, at)
		}
	}
	return train, test
}

// Stratified is all rows or, of more than limit, an even choice in each class, at least one, in row order.
func (p *Rows) Stratified(limit int) []int {
	pick, _ := p.References(limit, 1)
	slices.Sort(pick)
	return pick
}

// References are rows by class, evenly spaced in each: count in all, but at least least of each class that has them. of
// is where each class begins and ends among them.
func (p *Rows) References(count, least int) (pick []int, of [][2]int) {
	byClass, share := p.ByClass(), Shares(p.N, count)
	for c := range p.Classes {
		rows, from := byClass[c], len(pick)
		pick = append(pick, Spaced(rows, max(min(least, len(rows)), share(len(rows))))...)
		of = append(of, [2]int{from, len(pick)})
	}
	return pick, of
}

// Shares divides limit among groups of n rows in all, in proportion to their sizes, which are passed one after the
// other; the shares add up to limit.
func Shares(n, limit int) func(size int) int {
	before := 0
	return func(size int) int {
		if n <= limit {
			return size
		}
		after := before + size
		k := limit*after/n - limit*before/n
		before = after
		return k
	}
}

// Spaced takes k of the rows at even distances.
func Spaced(rows []int, k int) []int {
	out := make([]int, k)
	for i := range out {
		out[i] = rows[i*len(rows)/k]
	}
	return out
}
