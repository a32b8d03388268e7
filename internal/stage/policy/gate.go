package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/evidence"
	"github.com/embedd/embedd/plugin/spec"
)

const (
	// minGain is the gain in accuracy below which two models count as equal: it is not worth a change of coordinates.
	minGain = 0.005
	// maxLoss is the loss in accuracy that a candidate from far more rows must be shown not to have. It need not be
	// shown to be better: more rows of the same concept only help.
	maxLoss = 0.01
	// lowOdds and notWorseOdds are the evidence in place of a model from few rows; see Schedule.EarlyOdds.
	lowOdds      = 3
	notWorseOdds = 0.25 // in place of a model from very few rows
	// minNearest is the evidence by the nearest reference below which a candidate counts as worse, whatever the share of
	// the nearest ones says. Before the first row it is 1.
	minNearest = 0.7
	// A candidate is grown if it has growthOfFew times as many rows as the live model. The factor is growth if the live
	// model has minSuffix effective rows or more, and growthOfMany if it has manyRows or more.
	growthOfFew  = 1.2
	growth       = 1.5
	growthOfMany = 4
	// manyRows is the number of effective rows from which more rows gain little.
	manyRows = 1000
	// minJudged is the number of rows that judge a candidate at notWorseOdds at least, of a run at most eight.
	minJudged = 32
)

// Grown reports whether a candidate has enough more rows than the live model to go live if it is merely no worse: a
// fifth more, half as many more from 250 effective rows on, or four times as many from 1,000 on, where more rows gain
// less and every change moves the outputs. A window grows by a quarter between two fits, or by nine sixteenths between
// three, so that few of them fall just short. effect is the design effect of the stream.
func Grown(rows, live int, effect float64) bool {
	factor := float64(growthOfMany)
	switch effective := float64(live) / effect; {
	case effective < minSuffix:
		factor = growthOfFew
	case effective < manyRows:
		factor = growth
	}
	return live > 0 && float64(rows) >= factor*float64(live)
}

// HasNewClass reports whether a candidate has classes that the live model was not fitted on. Together they need half of
// the fair share of one class, and the candidate half of the live model's rows. If the candidate has half as many more
// rows than the live model, one row is enough. A gain in accuracy would take long to show: the live model may recognise
// rows of a new class by accident, or they are few. counts are the candidate's rows by class.
func HasNewClass(rows int, classes []string, counts []int, liveRows int, liveClasses []string) bool {
	if 2*rows < liveRows || len(liveClasses) == 0 {
		return false
	}
	fresh := 0
	for i, class := range classes {
		if !slices.Contains(liveClasses, class) {
			fresh += counts[i]
		}
	}
	return fresh > 0 && (2*fresh*len(classes) >= rows || float64(rows) >= growth*float64(liveRows))
}

// Comparison is the test of a candidate against the live model on rows that neither has seen (Invariant 8).
type Comparison struct {
	Test evidence.SequentialTest
	// Nearest tests the same hypothesis by the nearest reference alone, at doors where a candidate need only be no worse.
	// It detects the loss of fine structure, where the share of the nearest references can even rise.
	Nearest evidence.SequentialTest
	HeldOut HeldOut
	Door    string // whose hypothesis is tested
	// EarlyOdds is the most evidence that the candidate needs if it need only be no worse and no odds are configured; 0:
	// no limit. See Schedule.EarlyOdds.
	EarlyOdds float64
}

// HeldOut is what the held-out rows of a window say of a candidate and the live model.
type HeldOut struct {
	Evidence       float64 `json:"evidence"`          // divided by the number of candidates that the rows have judged
	Nearest        float64 `json:"nearest,omitempty"` // of Comparison.Nearest, not divided; 0: unknown
	Rows           int     `json:"rows"`
	CandidateBeats bool    `json:"Candidate"` // the candidate beats chance; see Sensitivity
	LiveBeats      bool    `json:"Live"`      // the live model does
}

// Evidence is that of the newest rows or of the held-out ones, whichever is more.
func (c *Comparison) Evidence() float64 { return max(c.Test.Value(), c.HeldOut.Evidence) }

// NewComparison begins a comparison at a door.
func NewComparison(g spec.Gate, door string) Comparison {
	margin := g.Margin + DoorNamed(door).gain
	return Comparison{Test: evidence.SequentialTest{Margin: margin},
		Nearest: evidence.SequentialTest{Margin: margin}, Door: door}
}

// IsOpen reports whether the candidate can go live at all with the present gate.
func (c *Comparison) IsOpen(g spec.Gate) bool { return !math.IsInf(c.Required(g), 1) }

// Required is the evidence at which the candidate goes live; +Inf if the door is closed.
func (c *Comparison) Required(g spec.Gate) float64 {
	need := DoorNamed(c.Door).threshold(g)
	isAuto := c.Door == DoorMoreRows && g.MoreRows == 0 || c.Door == DoorNewClass && g.NewClass == 0
	if c.EarlyOdds > 0 && isAuto && !math.IsInf(need, 1) {
		return min(need, c.EarlyOdds)
	}
	return need
}

// EarlyOdds is the most evidence that a candidate of the same method from more rows or classes needs while the live
// model is early; 0: it is not. rows and classes are those of the live model, established is the number of classes in
// the window, and effect is the design effect of the stream. changed: a drift was detected.
func (p *Schedule) EarlyOdds(rows int, effect float64, classes, established int, changed bool) float64 {
	effective, first := float64(rows)/effect, float64(p.FirstRows())
	switch {
	case !changed && (effective < first || established > 0 && 2*classes <= established):
		return notWorseOdds // the candidate is most likely better, and so few rows cannot show it
	case effective < first, !changed && effective < 2*first:
		return lowOdds
	}
	return 0
}

// IsNonInferiority reports whether the test is one of non-inferiority: the candidate must only be shown to be no worse.
func (c *Comparison) IsNonInferiority() bool { return c.Door != DoorBetter }

// Standing is what the labels of recent rows say of a candidate and the live model.
type Standing struct {
	Agreement      *Agreement // of the candidate with the labels; nil of held-out rows
	CandidateBeats bool       // the candidate beats chance; see Sensitivity
	LiveBeats      bool       // the live model does
}

// Passes decides whether a candidate goes live: its evidence suffices, its agreement with the labels is above chance,
// and the live model beats chance or, at the odds of the door better or in place of an early model, the candidate does.
// s is nil without labels. The reason is a sentence.
func Passes(g spec.Gate, c *Comparison, s *Standing) (pass bool, reason string) {
	value, rows, need, claim := c.Test.Value(), c.Test.Count, c.Required(g), "better"
	isEarly, judged, nearest := need < 1, c.Test.Judged, c.Nearest.Value()
	if h := c.HeldOut; s != nil && (h.Evidence > value || isEarly && judged < minJudged && h.Rows >= minJudged) {
		value, rows, judged, nearest = h.Evidence, h.Rows, h.Rows, h.Nearest
		s = &Standing{CandidateBeats: h.CandidateBeats || s.CandidateBeats, LiveBeats: h.LiveBeats || s.LiveBeats}
	}
	if c.IsNonInferiority() {
		claim = "not worse, from more rows or classes"
	}
	if !c.IsOpen(g) {
		return false, fmt.Sprintf("evidence %.3g that it is %s, on %d rows, and the door is closed: %s is never", value,
			claim, rows, DoorNamed(c.Door).Key)
	}
	if isEarly && judged < minJudged {
		return false, fmt.Sprintf("it was judged on %d rows of at least %d, of a run at most eight", judged, minJudged)
	}
	if value < need {
		return false, fmt.Sprintf("evidence %.3g of %.4g that it is %s, on %d rows", value, need, claim, rows)
	}
	if c.IsNonInferiority() && nearest > 0 && nearest < minNearest {
		return false, fmt.Sprintf("evidence %.3g of at least %g that it is not worse by the nearest reference alone, on %d "+
			"rows", nearest, minNearest, rows)
	}
	switch {
	case s == nil:
	case s.Agreement == nil && !s.LiveBeats && !s.CandidateBeats:
		return false, "it does not beat chance on the rows that are held out"
	case s.Agreement != nil && (!s.Agreement.AboveChance() || !s.LiveBeats && !s.CandidateBeats):
		return false, fmt.Sprintf(
			"it is right about %.1f%% of the last rows, and chance is %.1f%%: the labels contradict every model",
			100*s.Agreement.Rate(), 100*s.Agreement.Chance())
	case !s.LiveBeats && value < g.Evidence && !(isEarly && s.CandidateBeats):
		return false, fmt.Sprintf("evidence %.3g that it is %s, on %d rows: while the live model does not beat chance, "+
			"%.4g is needed", value, claim, rows, g.Evidence)
	}
	if isEarly && value < lowOdds {
		return true, fmt.Sprintf("the live model is early, and this one, from more rows or classes, is not shown to be "+
			"worse: evidence %.3g that it is not, on %d rows that neither has seen", value, rows)
	}
	return true, fmt.Sprintf("evidence %.4g that it is %s, on %d rows that neither has seen", value, claim, rows)
}

// recentRows is the number of rows after which the older half of what is counted is forgotten: recent means the last
// 500 to 1,000 rows.
const recentRows = 500

// Agreement counts how often the classes that a model predicts for recent rows are their labels, and how often they
// would be if labels were independent of the predictions (Cohen, Educ. Psychol. Meas. 20, 1960).
type Agreement struct {
	Last, Before Confusion
}

// Confusion is the marginals of a confusion matrix.
type Confusion struct {
	Rows      float64            `json:"rows"`
	Right     float64            `json:"right"`
	True      map[string]float64 `json:"true,omitempty"`  // rows by label
	Predicted map[string]float64 `json:"taken,omitempty"` // rows by predicted class
}

// Add counts a row; right is 1 if its label was predicted and 0 if not or, without labels, the share of its variance
// that the outputs keep.
func (a *Agreement) Add(right float64, label, class string) {
	if a.Last.Rows >= recentRows {
		a.Before, a.Last = a.Last, Confusion{}
	}
	l := &a.Last
	if l.True == nil {
		l.True, l.Predicted = map[string]float64{}, map[string]float64{}
	}
	l.Rows++
	l.Right += right
	l.True[label]++
	l.Predicted[class]++
}

// Clone returns a copy.
func (a *Agreement) Clone() Agreement {
	return Agreement{a.Last.clone(), a.Before.clone()}
}

func (c Confusion) clone() Confusion {
	c.True, c.Predicted = maps.Clone(c.True), maps.Clone(c.Predicted)
	return c
}

// Rate is the accuracy on recent rows; NaN if there are none.
func (a *Agreement) Rate() float64 {
	return (a.Last.Right + a.Before.Right) / (a.Last.Rows + a.Before.Rows)
}

// Chance is the accuracy that independent labels would have.
func (a *Agreement) Chance() float64 {
	n, sum := a.Last.Rows+a.Before.Rows, 0.0
	for _, c := range []Confusion{a.Last, a.Before} {
		for label, v := range c.True {
			sum += v * (a.Last.Predicted[label] + a.Before.Predicted[label])
		}
	}
	return sum / (n * n)
}

// AboveChance reports whether Rate exceeds Chance by three standard errors.
func (a *Agreement) AboveChance() bool {
	n, p := a.Last.Rows+a.Before.Rows, a.Chance()
	return n >= 20 && a.Rate() > p+3*math.Sqrt(p*(1-p)/n)
}
