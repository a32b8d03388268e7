package choose

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/preprocess"
)

// Name is the method name that requests the best candidate.
const Name = "auto"

// Method describes auto. It has no fit: the method it chooses is fitted instead. It is not supervised, because without
// labels it is pca.
var Method = frame.Method{
	Name: Name, Title: "a fast method, chosen by cross-validation on the rows at hand",
	Paper:     "the rows at hand",
	Map:       "linear",
	Streaming: "window",
	Params: []frame.Param{frame.RidgeParam("auto",
		"relative ridge of the chosen method, where it has one: auto (cross-validation), oas, or a number", true)},
}

// Config configures the choice.
type Config struct {
	Method    *frame.Method     // nil: choose among the candidates
	Params    map[string]string // of the method, or the ridge of any candidate
	Dim       int               // 0 or less: choose
	MaxDim    int               // upper bound of a chosen dimension; 0: none
	Scale     model.Scale       // auto: choose
	Blend     int               // number of candidates in a blend; see fit.Config
	Fewest    bool              // the smallest dimension that is not significantly worse than the best
	Nonlinear bool              // try normal scores and landmarks too
	Seed      uint64
	Progress  func(string, float64)
	Applied   *preprocess.Applied // nil: none
}

// Open names what the configuration leaves open.
func (c Config) Open() string {
	switch {
	case c.Method != nil:
		return "dim"
	case c.Dim > 0:
		return "method"
	}
	return "method and dim"
}

// blends reports whether the best candidates may become one model.
func (c Config) blends() bool { return c.Method == nil && c.Blend != 1 }

// isAuto reports whether methods are compared.
func (c Config) isAuto() bool { return c.Method == nil }

// Result is what cross-validation decided.
type Result struct {
	// Default is the choice where no rows can be held out; there are no candidates then.
	Default *model.Choice
	// Blend is the blend of the best candidates; nil if there is none, or if one candidate beats it.
	Blend *model.Choice
	// Candidates are single candidates, best first. The next one replaces one that cannot be fitted on all rows.
	Candidates iter.Seq[*model.Choice]
	// Note explains why the first candidate is not a blend, or not the one with the most correct rows; "" if it is.
	Note string

	from   *selection
	ranked []model.Score
	common model.Choice // what all choices share
}

// candidates makes the choices one by one: their tables are long, and rarely more than the first one is needed.
func (r *Result) candidates(yield func(*model.Choice) bool) {
	for _, score := range r.ranked {
		choice := r.choice(score)
		choice.Scores = r.from.table(r.ranked, score, score.Dim)
		choice.RunnerUp = runnerUp(choice.Scores, r.from.c.isAuto())
		if !yield(choice) {
			return
		}
	}
}

// choice is the choice of a score.
func (r *Result) choice(score model.Score) *model.Choice {
	choice := r.common
	choice.Method, choice.Scale, choice.Dim = score.Method, score.Scale, score.Dim
	choice.Landmarks, choice.Width = score.Landmarks, score.Width
	if columns := r.from.total.Columns; r.from.c.Dim <= 0 && score.Dim >= columns {
		choice.Note = fmt.Sprintf("%d outputs of %d columns: on these rows every reduction loses", score.Dim, columns)
	}
	return &choice
}

// Run chooses on the labelled rows p.
func Run(ctx context.Context, p *frame.Rows, c Config) (*Result, error) {
	start := time.Now()
	s, err := newSelection(ctx, p, c)
	if err != nil {
		return nil, err
	}
	ranked, err := s.rank(ctx)
	if err != nil {
		return nil, err
	}
	if ranked == nil {
		return &Result{Default: s.withoutScores()}, nil
	}
	return s.result(ctx, ranked, start), nil
}

// WithoutScores is the choice of a configuration without cross-validation: lda, or pairacc for more than C-1
// dimensions, or pca without classes.
func WithoutScores(c Config, classes, columns int) *model.Choice {
	choice := &model.Choice{Chosen: c.Open(), Rule: "no rows are kept", Dim: max(c.Dim, 0)}
	switch {
	case c.Method != nil:
		choice.Method = c.Method.Name
	case classes < 2:
		choice.Method = "pca"
	case c.Dim <= min(classes-1, columns):
		choice.Method = "lda"
	default:
		choice.Method = "pairacc"
	}
	return choice
}
