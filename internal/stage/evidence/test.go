package evidence

import (
	"cmp"
	"math"
)

// bets are the stakes of the bettors, as shares of their capital. Small stakes gain slowly from small advantages, large
// ones quickly from large advantages.
var bets = [...]float64{0.03, 0.06, 0.12, 0.25, 0.5}

const (
	// minCapital is the capital at which a bettor starts over: evidence against a candidate that is long past does not
	// hide evidence for it now.
	minCapital = 1.0 / 8
	// maxStake bounds the stake on a row of a rare class.
	maxStake = 0.9
	// minChance bounds what one right prediction is worth.
	minChance = 0.05
	// minRunsForMean is the effective number of runs up to which the mean of all of them may be chance.
	minRunsForMean = 8
	// runRows is the number of rows of a run that are counted as judged.
	runRows = 8
	// estimateMargin enlarges the excess of the design effect of runs, which is an estimate.
	estimateMargin = 1.25
)

var logMinCapital = math.Log(minCapital)

// SequentialTest is a sequential test by betting of whether the mean of outcomes in [-1, 1] exceeds Margin. Its value
// is the mean capital of bettors that stake on each outcome exceeding the margin. While the mean does not, the capital
// of a bettor is an e-process, a nonnegative supermartingale, from each of its starts: from c0 it ever reaches c with
// probability at most c0/c (Ville's inequality). A bettor starts over at minCapital.
//
// Outcomes that depend on each other tell less: the logarithm of what a row gains or loses is divided by the design
// effect, the factor by which the variance of a mean exceeds that of independent rows. It is the larger of that of the
// stream ([Row.Effect]) and that of the runs of a class, by the variance of their sums (Liang and Zeger, Biometrika 73,
// 1986): a candidate that is better for some classes and worse for others gains nothing from the order of the classes.
//
// Shafer, Testing by betting, J. R. Stat. Soc. A 184, 2021; Waudby-Smith and Ramdas, Estimating means of bounded random
// variables by betting, J. R. Stat. Soc. B 86, 2024; starting over: Shin, Ramdas and Rinaldo, E-detectors, New England
// J. Stat. Data Sci. 2, 2024; powers of a likelihood: Grünwald and van Ommen, Bayesian Analysis 12, 2017.
//
// The zero value starts at capital 1 with margin 0.
type SequentialTest struct {
	Margin float64            `json:"margin"`
	Logs   [len(bets)]float64 `json:"logs"` // logarithms of the capital of each bettor
	Count  int                `json:"count"`
	// Judged counts at most runRows rows of a run: more rows of one class say little about others.
	Judged int     `json:"judged,omitempty"`
	Runs   runSums `json:"runs"`
	// IsSample says that the outcomes are a sample that is judged as a whole, in whatever order: no bettor starts over.
	// Classes in which the candidate is worse would else count less than those after them in which it is better.
	IsSample bool `json:"-"`
}

// Row describes a row of a stream for tests of its outcomes.
type Row struct {
	Weight float64 // of its class, so that all classes count the same on average; 0: 1
	Effect float64 // the design effect of the stream; 0: 1
	// RunStart is the number of rows before the first row of its run, or before the row if labels do not come in runs.
	RunStart int
	NewRun   bool // it begins a run, or there are no classes
	IsStray  bool // its class is neither that of its run nor that of the row before
}

// Add adds the outcome of an independent row, in [-1, 1]: the candidate's minus the other's.
func (t *SequentialTest) Add(outcome float64) { t.AddRow(outcome, Row{NewRun: true}) }

// AddRow adds the outcome of a row.
func (t *SequentialTest) AddRow(outcome float64, r Row) {
	t.bet(max(min(outcome, 1), -1)-t.Margin, cmp.Or(r.Weight, 1), 1+math.Abs(t.Margin), r)
}

// AddChance adds whether a prediction was right, in [0, 1], where chance plus the margin would be right so often. The
// bettors stake shares of all that they can lose, so that few right predictions of a rare class say much.
func (t *SequentialTest) AddChance(right, chance float64, r Row) {
	chance = max(min(chance+t.Margin, 1), minChance)
	t.bet(right/chance-1, 1, 1, r)
}

// bet has the bettors stake on x, which is above minus most.
func (t *SequentialTest) bet(x, weight, most float64, r Row) {
	t.Count++
	if t.Runs.add(weight*x, r.NewRun); t.Runs.Rows <= runRows {
		t.Judged++
	}
	if x == 0 { // both models are right, or both are wrong: no capital changes
		return
	}
	least := logMinCapital
	if t.IsSample {
		least = math.Inf(-1)
	}
	effect := max(r.Effect, t.Runs.effect(), 1)
	for i, b := range bets {
		if x < 0 && t.Logs[i] == least { // the least capital: a loss does not reduce it
			continue
		}
		stake := min(b*weight, maxStake) / most // the capital stays positive
		t.Logs[i] = max(t.Logs[i]+math.Log1p(stake*x)/effect, least)
	}
}

// Forget resets capital above 1 to 1: evidence for an earlier fit does not count for the next one.
func (t *SequentialTest) Forget() {
	for i := range t.Logs {
		t.Logs[i] = min(t.Logs[i], 0)
	}
}

// Value is the e-value: the mean capital.
func (t *SequentialTest) Value() float64 {
	sum := 0.0
	for _, l := range t.Logs {
		sum += math.Exp(min(l, 700))
	}
	return sum / float64(len(bets))
}

// runSums are sums over runs of rows of one class.
type runSums struct {
	Rows     float64 `json:"n"` // of the newest run
	Sum      float64 `json:"s"`
	AllRows  float64 `json:"rows"` // of all runs before
	AllSum   float64 `json:"sum"`
	Squares  float64 `json:"squares"`  // of rows, of all runs
	SumsSq   float64 `json:"sums_sq"`  // of the sums of runs before
	Products float64 `json:"products"` // of sums and rows
	RowsSq   float64 `json:"rows_sq"`  // of the rows of runs
}

func (s *runSums) add(x float64, newRun bool) {
	if newRun {
		s.AllRows, s.AllSum = s.AllRows+s.Rows, s.AllSum+s.Sum
		s.SumsSq, s.Products, s.RowsSq = s.SumsSq+s.Sum*s.Sum, s.Products+s.Sum*s.Rows, s.RowsSq+s.Rows*s.Rows
		s.Rows, s.Sum = 0, 0
	}
	s.Rows++
	s.Sum += x
	s.Squares += x * x
}

// effect is the variance of the sums of runs, compared with that of independent rows. With few runs the mean of the
// outcomes may be chance, so that it counts as variance.
func (s *runSums) effect() float64 {
	n, sum := s.AllRows+s.Rows, s.AllSum+s.Sum
	rowsSq := s.RowsSq + s.Rows*s.Rows
	runs := n * n / rowsSq
	mean := sum / n * max(1-minRunsForMean/runs, 0)
	within := s.Squares - 2*mean*sum + mean*mean*n
	if within <= 0 {
		return 1
	}
	between := s.SumsSq + s.Sum*s.Sum - 2*mean*(s.Products+s.Sum*s.Rows) + mean*mean*rowsSq
	return 1 + estimateMargin*max(between/within-1, 0)
}
