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
