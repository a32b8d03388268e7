package frame

import (
	"slices"
	"testing"
)

// grouped has rows of three classes in turn, and a fourth class in one group alone.
func grouped(groups, size int) *Rows {
	p := &Rows{Classes: []string{"a", "b", "c", "d"}}
	for g := range groups {
		for i := range size {
			class := (g + i) % 3
			if g == 2 && i >= size/2 {
				class = 3
			}
			p.Y, p.Groups, p.N = append(p.Y, class), append(p.Groups, 7*g), p.N+1
		}
	}
	return p
}

// TestFoldsKeepGroupsTogether: no group is in two folds, in any round; a class of one group trains in every fold.
func TestFoldsKeepGroupsTogether(t *testing.T) {
	const count = 3
	p := grouped(12, 16)
	var before []int
	for round := range 3 {
		pick, fold := Folds(p, 150, count, round)
		if len(pick) != len(fold) || len(pick) < 140 {
			t.Fatalf("round %d: %d rows, %d folds", round, len(pick), len(fold))
		}
		at, sizes := map[int]int{}, make([]int, count)
		for i, r := range pick {
			switch g := p.Groups[r]; {
			case p.Y[r] == 3:
				if fold[i] != -1 {
					t.Errorf("round %d: a row of the class of one group is in fold %d", round, fold[i])
				}
			case fold[i] < 0 || fold[i] >= count:
				t.Fatalf("round %d: fold %d", round, fold[i])
			default:
				if f, seen := at[g]; seen && f != fold[i] {
					t.Errorf("round %d: group %d is in the folds %d and %d", round, g, f, fold[i])
				}
				at[g] = fold[i]
				sizes[fold[i]]++
			}
		}
		if slices.Min(sizes) < 30 {
			t.Errorf("round %d: folds of %d rows", round, sizes)
		}
		if round > 0 && slices.Equal(fold, before) {
			t.Errorf("round %d deals as the one before", round)
		}
		before = fold
		if again, same := Folds(p, 150, count, round); !slices.Equal(again, pick) || !slices.Equal(same, fold) {
			t.Errorf("round %d deals in another way the second time", round)
		}
	}
	if pick, _ := Folds(grouped(1, 60), 150, count, 0); pick != nil {
		t.Error("rows of one group were dealt to several folds")
	}
}

// TestFoldsByHand: classes are dealt in the order of their names, then of their numbers; one with fewer rows than folds
// is in the training rows of every fold.
func TestFoldsByHand(t *testing.T) {
	p := func(classes []string, y ...int) *Rows { return &Rows{N: len(y), Y: y, Classes: classes} }
	eight := p([]string{"b", "a", "c"}, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2)
	for _, c := range []struct {
		rows       *Rows
		limit      int
		pick, fold []int
	}{
		{eight, 10, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []int{1, 2, 0, 1, 0, 1, 2, 0, -1, -1}},
		{eight, 4, []int{0, 1, 2, 4, 5, 6, 8, 9}, []int{0, 1, 2, 0, 1, 2, -1, -1}},
		{p([]string{"a", "a"}, 1, 1, 1, 0, 0, 0, 0), 7, []int{0, 1, 2, 3, 4, 5, 6}, []int{1, 2, 0, 0, 1, 2, 0}},
		{p([]string{"a", "b"}, 0, 0, 0, 1, 1), 9, nil, nil},
	} {
		pick, fold := Folds(c.rows, c.limit, 3, 0)
		if !slices.Equal(pick, c.pick) || !slices.Equal(fold, c.fold) {
			t.Errorf("%v, at most %d: rows %v in folds %v", c.rows.Y, c.limit, pick, fold)
		}
	}
	pick, fold := Folds(eight, 10, 3, 1)
	if _, first := Folds(eight, 10, 3, 0); len(pick) != 10 || slices.Equal(fold, first) ||
		!slices.Equal(fold[8:], []int{-1, -1}) {
		t.Errorf("the next round deals %v", fold)
	}
	if train, test := HeldOut([]int{3, 4, 7, 9}, []int{1, 0, -1, 1}, 1); !slices.Equal(train, []int{4, 7}) ||
		!slices.Equal(test, []int{3, 9}) {
		t.Errorf("fold 1 trains on %v", train)
	}
	two := &Rows{N: 8, Y: []int{0, 0, 0, 1, 1, 1, 1, 1}, Classes: []string{"a", "b"}, Groups: []int{1, 2, 3, 1, 2, 3, 1,
		2}}
	if pick, _ := Folds(two, 8, 3, 0); len(pick) != 8 {
		t.Errorf("two classes of three groups: %v", pick)
	}
	if ExplainFolds(two) != "fewer than 2 classes have the 3 rows, in 2 groups, that cross-validation needs" ||
		ExplainFolds(eight) != "fewer than 2 classes have the 3 rows that cross-validation needs" {
		t.Error(ExplainFolds(two), ExplainFolds(eight))
	}
}

// TestSharesAddUp: groups of 3, 3 and 4 rows share 5 in proportion, and the chosen rows are evenly spaced.
func TestSharesAddUp(t *testing.T) {
	for limit, want := range map[int][]int{5: {1, 2, 2}, 9: {2, 3, 4}, 10: {3, 3, 4}, 11: {3, 3, 4}} {
		share := Shares(10, limit)
		if got := []int{share(3), share(3), share(4)}; !slices.Equal(got, want) {
			t.Errorf("%d in all: %v, want %v", limit, got, want)
		}
	}
	if got := Spaced([]int{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, 4); !slices.Equal(got, []int{10, 12, 15, 17}) {
		t.Errorf("four of ten: %v", got)
	}
	p := &Rows{N: 10, Y: []int{2, 0, 0, 0, 0, 0, 0, 0, 0, 2}, Classes: []string{"a", "b", "c"}}
	pick, of := p.References(3, 2)
	if want := [][2]int{{0, 2}, {2, 2}, {2, 4}}; !slices.Equal(pick, []int{1, 5, 0, 9}) || !slices.Equal(of, want) {
		t.Errorf("references %v of %v", pick, of)
	}
	if got := p.Stratified(3); !slices.Equal(got, []int{0, 1, 5}) {
		t.Errorf("three of two classes: %v", got)
	}
}
