package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// classesOfSizes returns classes of which number i has sizes[i] rows.
func classesOfSizes(sizes ...int) *classes {
	t := &classes{index: map[string]int{}}
	seq := uint64(0)
	for c, n := range sizes {
		name := fmt.Sprint("class ", c)
		t.names, t.rows, t.index[name] = append(t.names, name), append(t.rows, nil), c
		for range n {
			seq++
			t.insert(&Row{class: c, Position: Position{Seq: seq}})
		}
	}
	return t
}

// TestRowsOfAFittedClass: a class needs a fifth of the size of the class of the median row, from 2 to 10.
func TestRowsOfAFittedClass(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	draws := [][]int{{}, {1}, {3, 3}, {4}, {4, 4}, {3, 4, 4}, {50, 50}, {49, 49}, {50, 25, 25}, {51, 25, 25}, {25, 25, 4},
		{20, 20}, {19, 19}, {3, 300, 10}, {15, 15}, {14, 14}, {45, 45}, {44, 44}}
	for range 300 {
		sizes := make([]int, 1+r.IntN(5))
		for i := range sizes {
			sizes[i] = r.IntN(20 + 50*r.IntN(2))
		}
		draws = append(draws, sizes)
	}
	for _, sizes := range draws {
		var rows []int // the size of the class of each row
		classes := 0
		for _, n := range sizes {
			if n >= 4 {
				classes++
				rows = append(rows, slices.Repeat([]int{n}, n)...)
			}
		}
		want := 2
		if slices.Sort(rows); classes >= 2 {
			want = min(max(rows[(len(rows)+1)/2-1]/5, 2), 10)
		}
		if got := classesOfSizes(sizes...).minRows(true); got != want {
			t.Errorf("classes of %v rows: %d are needed, want %d", sizes, got, want)
		}
		if got := classesOfSizes(sizes...).minRows(false); got != 0 {
			t.Errorf("without labels %d rows are needed", got)
		}
	}
}

// TestFairQuota: no larger number of rows per class leaves all classes at the given number together.
func TestFairQuota(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 300 {
		sizes := make([]int, 1+r.IntN(5))
		all := 0
		for i := range sizes {
			sizes[i] = 1 + r.IntN(30)
			all += sizes[i]
		}
		most := r.IntN(2*all + 1)
		want := 1
		for quota := 1; quota <= slices.Max(sizes); quota++ {
			sum := 0
			for _, n := range sizes {
				sum += min(n, quota)
			}
			if sum <= most {
				want = quota
			}
		}
		if got := classesOfSizes(append(sizes, 0)...).fairQuota(most); got != want {
			t.Errorf("classes of %v rows, %d together: %d each, want %d", sizes, most, got, want)
		}
	}
}

// TestLeastRecent: of the classes with fewer than 10 rows, the one that has had none for longest.
func TestLeastRecent(t *testing.T) {
	for _, c := range []struct {
		sizes       []int
		class, rows int
	}{
		{nil, -1, 0}, {[]int{0, 10}, -1, 0}, {[]int{10, 9, 3}, 1, 12}, {[]int{0, 11, 1, 9}, 2, 10}, {[]int{9, 9}, 0, 18},
	} {
		if class, n := classesOfSizes(c.sizes...).leastRecent(); class != c.class || n != c.rows {
			t.Errorf("classes of %v rows: class %d, %d rows; want %d, %d", c.sizes, class, n, c.class, c.rows)
		}
	}
}

// TestReplaced: rows before a start are replaced by newer ones of their class from 10 of these on; before that the
// newest 30 stay.
func TestReplaced(t *testing.T) {
	for _, c := range []struct{ rows, newer, want int }{
		{50, 0, 20}, {50, 9, 20}, {50, 10, 40}, {50, 50, 0}, {30, 9, 0}, {31, 9, 1}, {31, 0, 1}, {10, 5, 0}, {0, 0, 0},
	} {
		start := Position{Seq: uint64(c.rows - c.newer + 1)}
		if got := classesOfSizes(c.rows).replaced(0, start); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestNumbersAreReused: a class gets the number of one that has no rows any more, and none beyond the maximum.
func TestNumbersAreReused(t *testing.T) {
	all := classesOfSizes(2, 1, 3)
	all.remove(all.rows[1][0])
	if _, ok := all.number("new", 2); ok {
		t.Error("a third class got a number, of two that are allowed")
	}
	if n, ok := all.number("new", 3); n != 1 || !ok {
		t.Errorf("a new class has number %d, %v", n, ok)
	}
	if n, ok := all.number("class 2", 1); n != 2 || !ok {
		t.Errorf("a known class has number %d, %v", n, ok)
	}
	if _, known := all.index["class 1"]; known {
		t.Error("the class without rows still has a number")
	}
}

// TestOutliersAreListed: at most 20 classes, those with most outliers first, of equal ones by label.
func TestOutliersAreListed(t *testing.T) {
	s := &sifter{Window: &Window{classes: classes{}}}
	for c := range 30 {
		s.classes.names = append(s.classes.names, fmt.Sprintf("%02d", 29-c))
		s.counts = append(s.counts, tally{setAside: int32(c / 10), limited: int32(c % 10 / 5)})
	}
	limited, list := s.byClass()
	var labels string
	for _, of := range list {
		labels += of.Label + " "
	}
	if want := "00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 "; limited != 15 || labels != want {
		t.Errorf("%d limited rows, classes %s", limited, labels)
	}
	s.counts = s.counts[:12]
	s.counts[11] = tally{}
	if _, list = s.byClass(); len(list) != 6 {
		t.Errorf("%d classes have outliers, want 6: %v", len(list), list)
	}
}

// TestCountsOfClasses counts classes by their rows; the sorted names leave out classes without rows.
func TestCountsOfClasses(t *testing.T) {
	c := classesOfSizes(3, 10, 2, 4)
	c.summedRows = make([]int, 4)
	if c.below(4) != 5 || c.below(3) != 2 || c.ofAtLeast(4) != 2 || c.ofAtLeast(2) != 4 || c.nonEmpty != 4 {
		t.Errorf("below 4: %d, of at least 4: %d", c.below(4), c.ofAtLeast(4))
	}
	names, to := c.sorted([]int{2, 0, 1, 0})
	if !slices.Equal(names, []string{"class 0", "class 2"}) || !slices.Equal(to, []int{0, -1, 1, -1}) {
		t.Errorf("classes %v at %v", names, to)
	}
}

// TestLentRows: fits use the held-out rows of a class while its other rows are fewer than ten and fewer than half of
// all. Then these rows are held out again.
func TestLentRows(t *testing.T) {
	for _, c := range []struct {
		fitted, heldOut int
		lent            bool
	}{{0, 1, true}, {1, 1, false}, {1, 2, true}, {4, 6, true}, {5, 6, true}, {5, 5, false}, {9, 30, true}, {10, 30, false},
		{10, 9, false}} {
		k := classesOfSizes(c.fitted + c.heldOut)
		k.summedRows = make([]int, 1)
		for i, r := range k.rows[0] {
			r.isHeldOut = i >= c.fitted
		}
		changed := 0
		of := []tally{{fitted: int32(c.fitted), heldOut: int32(c.heldOut)}}
		k.lend(of, func(*Row) { changed++ })
		if want := map[bool]int{true: c.heldOut}[c.lent]; changed != want || k.lent[0] != c.lent {
			t.Errorf("%+v: %d rows are lent", c, changed)
		}
		if k.lend(of, func(*Row) { changed = -1 }); changed < 0 {
			t.Errorf("%+v: rows change again", c)
		}
		changed = 0
		k.lend([]tally{{fitted: 20, heldOut: int32(c.heldOut)}}, func(*Row) { changed++ })
		if want := map[bool]int{true: c.heldOut}[c.lent]; changed != want || k.lent[0] || k.rows[0][len(k.rows[0])-1].isLent {
			t.Errorf("%+v: %d rows are held out again", c, changed)
		}
	}
}
