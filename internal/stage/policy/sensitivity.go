package policy

import (
	"math"

	"github.com/embedd/embedd/internal/stage/evidence"
)

const (
	// chanceMargins is by how many margins of maxLoss a model must beat chance for a comparison with it to mean anything:
	// of two models that guess, neither is worse.
	chanceMargins = 5
	// chanceOdds is the evidence that a model beats chance.
	chanceOdds    = 20
	maxChanceOdds = 2 * chanceOdds // so that the evidence ends soon after the labels do
)

var logMaxChanceOdds = math.Log(maxChanceOdds)

// Sensitivity is the evidence that a model beats chance on the newest rows by five margins, where chance is how often a
// label that is independent of the model's predictions would agree with them. It is the assay sensitivity of a
// comparison with that model (ICH E10, Choice of control group in clinical trials, 2000, section 1.5).
type Sensitivity struct {
	Test evidence.SequentialTest `json:"test"`
}

// Add counts a row: how right the model is, in [0, 1], and the share of the class that it predicted.
func (s *Sensitivity) Add(right, share float64, r evidence.Row) {
	s.Test.Margin = chanceMargins * maxLoss
	s.Test.AddChance(right, share, r)
	for i := range s.Test.Logs {
		s.Test.Logs[i] = min(s.Test.Logs[i], logMaxChanceOdds)
	}
}

// BeatsChance reports whether the evidence suffices.
func (s *Sensitivity) BeatsChance() bool { return s.Test.Value() >= chanceOdds }

// Suspicion counts the rows since any model beat chance. Rows that depend on their neighbours count as fewer, as they
// do for the evidence that a model beats chance.
type Suspicion struct {
	Rows float64 `json:"rows"`
	Run  int     `json:"run"` // rows of the newest run
}

const (
	// suspectRows is the number of rows without a model that beats chance from which the labels are suspect: after a
	// change of the concept no model does for a while.
	suspectRows = 500
	// suspectRun is the number of rows of a run that count: within a run of one class every label agrees with chance.
	suspectRun = 8
)

// Add counts rows, and whether a model beats chance after them, or at least agrees with the labels more often. It
// reports whether the suspicion has begun or ended.
func (s *Suspicion) Add(rows []evidence.Row, beats, agrees bool) (changed bool) {
	was := s.IsRaised()
	for _, r := range rows {
		if s.Run++; r.NewRun {
			s.Run = 1
		}
		if s.Run <= suspectRun {
			s.Rows += 1 / max(r.Effect, 1)
		}
	}
	switch {
	case beats:
		s.Rows = 0
	case agrees && !was:
		s.Rows = min(s.Rows, suspectRows-1)
	}
	return was != s.IsRaised()
}

// IsRaised reports whether the labels contradict every model.
func (s *Suspicion) IsRaised() bool { return s.Rows >= suspectRows }
