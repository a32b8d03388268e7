package stage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/embedd/embedd/internal/testsize"
	"github.com/embedd/embedd/plugin/spec"
)

// withGaps removes one in a hundred values of the rows, all values of feature 2 for a third of the rows, and those of
// feature 4 always.
func withGaps(rows []row) []row {
	r := rand.New(rand.NewPCG(81, 82))
	rows = slices.Clone(rows)
	for i := range rows {
		x := slices.Clone(rows[i].x)
		for j := range x {
			if r.IntN(100) == 0 || j == 4 || j == 2 && i > len(rows)/10 && i < len(rows)*13/30 {
				x[j] = []float32{float32(math.NaN()), float32(math.Inf(1))}[r.IntN(2)]
			}
		}
		rows[i].x = x
	}
	return rows
}

// TestImputedFollowsLikeReject: with nulls impute a stage fits nested suffixes from moments. Without a missing feature
// it decides as with reject; with many, restarts at any point decide alike, and the accuracy after drift is that of the
// complete rows without the features that are missing.
func TestImputedFollowsLikeReject(t *testing.T) {
	rows, methods := driftingRows(3000), []string{"lda", "lda on landmarks"}
	if testsize.Soak() {
		rows, methods = driftingRows(6000), append(methods, "pca", "lfda", "auto")
	}
	impute := func(c *spec.Config) {
		c.Nulls, c.Training.Window.Rows, c.Training.Every.Rows = spec.NullsImpute, 1500, 300
	}
	reject := func(c *spec.Config) { impute(c); c.Nulls = spec.NullsReject }
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			of := func(with func(*spec.Config)) func(*spec.Config) {
				return func(c *spec.Config) {
					with(c)
					if c.Fit.Method = method; method == "lda on landmarks" {
						c.Fit.Method, c.Fit.Landmarks = "lda", 40
					}
				}
			}
			a, b := newRecordedStage(t, of(reject)), newRecordedStage(t, of(impute))
			learnRows(t, a.Stage, 1, rows)
			learnRows(t, b.Stage, 1, rows)
			if x, y := fmt.Sprint(a.decisions), fmt.Sprint(b.decisions); x != y {
				t.Errorf("complete rows: reject decides\n%s\nand impute\n%s", x, y)
			}
			if x, y := inspect(a.Stage), inspect(b.Stage); x.ByMoments != y.ByMoments || x.Probe != y.Probe {
				t.Errorf("reject fits moments: %t, probes: %t; impute %t, %t", x.ByMoments, x.Probe, y.ByMoments, y.Probe)
			}
			c := compareRestarts(t, withGaps(rows), []int{1700}, of(impute))
			d := newRecordedStage(t, of(reject))
			for i := range rows {
				rows[i].x[4] = 0
			}
			learnRows(t, d.Stage, 1, rows)
			if x, y := c.Status(), d.Status(); !(x.Accuracy >= y.Accuracy-0.06) {
				t.Errorf("with gaps it is right about %.3f, without about %.3f", x.Accuracy, y.Accuracy)
			}
		})
	}
}

// TestImputedSummaries: summaries of rows with missing features are learned with nulls impute, also of blocks in which
// a feature has no value, and are refused with another policy.
func TestImputedSummaries(t *testing.T) {
	rows := withGaps(driftingRows(6000))
	change := func(c *spec.Config) { withBlocks("lda")(c); c.Nulls = spec.NullsImpute }
	hands := newStage(t, change)
	summaries := make([][]byte, len(rows)/20/blockMessages)
	for n := range summaries {
		summaries[n] = summaryOf(t, hands, rows, n)
	}
	a := newRecordedStage(t, change)
	learnBlocks(t, a.Stage, summaries, 0)
	b := newRecordedStage(t, func(c *spec.Config) { change(c); c.Training.Block = 0 })
	learnRows(t, b.Stage, 1, rows)
	x, y := a.Status(), b.Status()
	if !(x.Accuracy >= y.Accuracy-0.05) || x.Received != len(rows) || x.Incomplete > 0 {
		t.Errorf("right about %.3f of %d rows, %d incomplete; from rows about %.3f", x.Accuracy, x.Received, x.Incomplete,
			y.Accuracy)
	}
	for _, stop := range []int{17} {
		c := newRecordedStage(t, change)
		learnBlocks(t, c.Stage, summaries[:stop], 0)
		_, first := ReadFrom(c.live.State)
		d := newRecordedStage(t, func(x *spec.Config) { change(x); x.Resume = c.live })
		d.decisions = c.decisions
		learnBlocks(t, d.Stage, summaries, int(first-1)/blockMessages)
		if x, y := fmt.Sprint(a.decisions), fmt.Sprint(d.decisions); x != y {
			t.Errorf("restarted after block %d: decisions\n%s\nand without\n%s", stop, y, x)
		}
	}
	other := newStage(t, withBlocks("lda"))
	if _, err := other.LearnSummary(testBlock(0), featureNames(), summaries[0]); err == nil {
		t.Error("a stage that rejects missing features learns a summary with them")
	}
}
