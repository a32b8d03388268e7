package evidence

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
)

// TestRareClassesWeighLess: a class weighs at most ten times its share of the rows, and others alike.
func TestRareClassesWeighLess(t *testing.T) {
	for _, c := range []struct{ common, rare, weight float64 }{
		{9990, 10, 10}, {990, 10, 10}, {960, 40, 10}, {900, 100, 5}, {500, 500, 1},
	} {
		s := LabelSequence{Rows: map[string]float64{"common": c.common, "rare": c.rare - 1}, All: c.common + c.rare - 1}
		if got := s.Add("rare").Weight; !(math.Abs(got-c.weight) <= 1e-12) {
			t.Errorf("%v of %v rows weigh %v each, want %v", c.rare, c.common+c.rare, got, c.weight)
		}
	}
}

// TestSharesFollowTheStream: counts are halved at 20,000 rows, and a class of one row is then forgotten.
func TestSharesFollowTheStream(t *testing.T) {
	var s LabelSequence
	s.Add("once")
	for range 20_000 - 1 {
		s.Add("usual")
	}
	if s.All != 20_000 || s.Rows["once"] != 1 {
		t.Fatalf("%v rows of 20,000, %v of the class that came once", s.All, s.Rows["once"])
	}
	s.Add("usual")
	if _, known := s.Rows["once"]; known || s.All != 19_999/2+1 || s.Count != 20_001 {
		t.Errorf("after one more row: %v rows, %v", s.All, s.Rows)
	}
}

// TestRunsAreMoreThanChance: labels come in runs if a tenth of the rows that would have another class by chance repeat
// the class before.
func TestRunsAreMoreThanChance(t *testing.T) {
	for _, c := range []struct {
		chance, repeats float64
		want            bool
	}{
		{0, 9, false}, {0, 11, true}, {0.5, 54, false}, {0.5, 56, true}, {0.9, 90, false}, {0.9, 92, true}, {0.1, 0, false},
	} {
		s := LabelSequence{All: 100, ByChance: c.chance, Repeats: c.repeats}
		if s.HasRuns() != c.want {
			t.Errorf("%v of 100 rows repeat, %v by chance: runs %v", c.repeats, c.chance, !c.want)
		}
	}
	if new(LabelSequence).HasRuns() {
		t.Error("no rows have runs")
	}
}

// TestWindowIsBounded: of each size the window has at most five buckets, it looks for a change every eighth row, and
// more than 32 classes share strata.
func TestWindowIsBounded(t *testing.T) {
	var a DriftDetector
	most := 0
	for n := 1; n <= 4000; n++ {
		a.Add(fmt.Sprint(n%100), 0.5)
		if a.SinceCheck != n%8 {
			t.Fatalf("%d rows after row %d the window was not checked", a.SinceCheck, n)
		}
		for _, row := range a.Rows {
			most = max(most, len(row))
		}
	}
	if most != 5 || a.Len() != 4000 {
		t.Errorf("at most %d buckets of one size, %d rows", most, a.Len())
	}
	var b DriftDetector
	for n := range 100 {
		if got := b.stratum(fmt.Sprint(n)); got != min(n, 31) {
			t.Errorf("class %d is in stratum %d", n, got)
		}
	}
	if len(b.Strata) != 32 {
		t.Errorf("%d classes have a stratum", len(b.Strata))
	}
}

// TestVariancesAreShrunk: the variance of a class gets four rows of the usual variance.
func TestVariancesAreShrunk(t *testing.T) {
	got := make([]float64, 3)
	rows := setVariances(got, []Sums{{0, 4, 2, 2}, {1, 1, 1, 1}, {2, 0, 0, 0}}) // within classes 1, of 5 rows
	for c, want := range []float64{(1 + 4*0.2) / 8, 4 * 0.2 / 5, 0.2} {
		if !(math.Abs(got[c]-want) <= 1e-15) {
			t.Errorf("class %d has variance %v, want %v", c, got[c], want)
		}
	}
	if rows != 5 {
		t.Errorf("%v rows", rows)
	}
}

// TestPartsNeedRows: a change is found once both parts have 16 independent values, not before, however large it is.
// Rows count as a quarter until their dependence is known from 16 pairs of blocks of 16 rows.
func TestPartsNeedRows(t *testing.T) {
	for _, c := range []struct{ known, change, want int }{{16, 16, 32}, {0, 64, 128}} {
		a := DriftDetector{Delta: 0.9}
		a.Blocks.Scales[0].Pairs, a.Blocks.Scales[1].Pairs = float64(c.known), float64(c.known)
		found := 0
		for n := 1; n <= 400 && found == 0; n++ {
			value := 0.0
			if n > c.change {
				value = 1
			}
			if a.Add("all", value) {
				found = n
			}
		}
		if found != c.want {
			t.Errorf("%+v: found after %d rows", c, found)
		}
	}
}

// TestEffectNeedsBlocks: the design effect counts as 4 until there are 16 pairs of blocks of eight rows. Then it is
// that of the newest pairs: their sums are halved at 256.
func TestEffectNeedsBlocks(t *testing.T) {
	var d Dependence
	most := 0.0
	for n := 1; n <= 8*1000; n++ {
		d.Add(float64(n%2) - 0.5)
		if want := n >= 8*17; d.IsKnown() != want || !want && d.Effect() != 4 || want && d.Effect() != 1 {
			t.Fatalf("after %d rows the effect is %v, known: %v", n, d.Effect(), d.IsKnown())
		}
		most = max(most, d.Scales[0].Pairs)
	}
	if most != 256 {
		t.Errorf("at most %v pairs", most)
	}
	d.Break()
	if !d.IsKnown() {
		t.Error("a break forgets the effect")
	}
}

// TestStakesAreBounded: a row of a rare class never costs more than nine tenths of a bettor's capital, and a bettor
// starts over at an eighth.
func TestStakesAreBounded(t *testing.T) {
	var won SequentialTest
	won.AddRow(1, Row{NewRun: true, Weight: 10})
	for i, b := range bets {
		if want := math.Log1p(min(10*b, 0.9)); !(math.Abs(won.Logs[i]-want) <= 1e-12) {
			t.Errorf("the bettor of %v has %v, want %v", b, won.Logs[i], want)
		}
	}
	var lost SequentialTest
	for range 5000 {
		lost.Add(-1)
	}
	if got := lost.Value(); !(math.Abs(got-1./8) <= 1e-12) {
		t.Errorf("after losses only the capital is %v, want an eighth", got)
	}
}

// TestLevelIsComputedNowAndThen: the weights of classes follow their shares every 32nd row, and at first at once.
func TestLevelIsComputedNowAndThen(t *testing.T) {
	var s LabelSequence
	if got := s.Add("a").Weight; got != 1 {
		t.Errorf("the first row weighs %v", got)
	}
	for n := 2; n <= 64; n++ {
		weight := s.Add([]string{"a", "b"}[n%2]).Weight
		want := s.All / s.Rows[s.Last] // of one class
		if n >= 32 {
			want /= 2
		}
		if !(math.Abs(weight-min(want, 10)) <= 1e-12) {
			t.Errorf("row %d weighs %v, want %v", n, weight, want)
		}
	}
}

// TestLargest: the largest difference is at most 1, grows towards a change, and starts over after it.
func TestLargest(t *testing.T) {
	var a DriftDetector
	before, after := 0.0, 0.0
	for n := range 3000 {
		isChange := a.Add("all", float64((n*7)%10/9))
		before = max(before, a.Largest())
		if isChange {
			t.Fatalf("a change after %d rows of one mean", n)
		}
	}
	for isChange := false; !isChange; isChange = a.Add("all", 1) {
		after = max(after, a.Largest())
	}
	if !(before > 0 && before < after && after > 0.5 && after <= 1) || a.Largest() != 0 {
		t.Errorf("the largest difference is %v before a change, then up to %v, and %v after it", before, after, a.Largest())
	}
}

// TestSumsAsJSON: sums come back as they were, and other JSON is an error.
func TestSumsAsJSON(t *testing.T) {
	want := Sums{3, 10, 2.5, 7}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Sums
	if err := json.Unmarshal(text, &got); err != nil || got != want || string(text) != "[3,10,2.5,7]" {
		t.Errorf("%s, %+v, %v", text, got, err)
	}
	if err := json.Unmarshal([]byte(`["three"]`), &got); err == nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestEffectOfTwoClusters: by hand. The residuals are 1 and -1, the sums of clusters are twice as large in variance,
// and 16 outcomes of a fair coin count with an effect of 4.
func TestEffectOfTwoClusters(t *testing.T) {
	for _, c := range []struct {
		sizes []int // of clusters whose outcomes are 1, then -1
		want  float64
	}{{[]int{1, 1}, (16 + 2*2) / (4.0 + 2)}, {[]int{3, 3}, (16 + 2*18) / (4.0 + 6)}, {[]int{2}, 4}} {
		var k Clusters
		for cluster, n := range c.sizes {
			for range n {
				k.Add(cluster, "a", float64(1-2*cluster))
			}
		}
		if got := k.Effect(); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("clusters of %v outcomes: an effect of %g, want %g", c.sizes, got, c.want)
		}
	}
}

// TestRareClassesAreRightByChance: a right prediction of a class is worth no more than if a twentieth of the rows were
// of it.
func TestRareClassesAreRightByChance(t *testing.T) {
	value := func(chance float64) float64 {
		var s SequentialTest
		s.AddChance(1, chance, Row{NewRun: true})
		return s.Value()
	}
	if rare, least, more := value(0.001), value(0.05), value(0.06); rare != least || !(more < least) {
		t.Errorf("at chances of 0.001, 0.05 and 0.06 it is worth %v, %v and %v", rare, least, more)
	}
}

// TestWeightsAddUp: rows weigh one on average, and rows of classes that are not rare the same in all.
func TestWeightsAddUp(t *testing.T) {
	for _, counts := range [][]float64{{1, 1}, {10, 990}, {10, 9990}, {1, 20, 300, 300, 4000}, {5, 5, 5000}} {
		var s LabelSequence
		s.Rows = map[string]float64{}
		for i, n := range counts {
			s.Rows[fmt.Sprint(i)] = n
			s.All += n
		}
		s.setLevel()
		total := 0.0
		for _, n := range counts {
			weight := min(10, s.Level*s.All/n)
			total += n * weight
			if weight < 10 && !(math.Abs(n*weight-s.Level*s.All) <= 1e-9*s.All) {
				t.Errorf("classes of %v rows: %v rows weigh %v", counts, n, n*weight)
			}
		}
		if !(math.Abs(total-s.All) <= 1e-9*s.All) {
			t.Errorf("classes of %v rows weigh %v in all", counts, total)
		}
	}
}
