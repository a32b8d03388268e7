package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/frame"
	"github.com/embedd/embedd/model/internal/method"
	"github.com/embedd/embedd/model/moments"
)

// Auto as a method stands for the one that held-out rows like best.
const Auto = "auto"

// AutoDim as a dimension stands for the one that held-out rows like best, of 2,
// 5, 10, 20 and C-1. Methods that do not learn from labels take their default.
const AutoDim = -1

// auto is no method of its own: Fit and FitMoments put one in its place. It
// needs no labels, since without them it is pca.
var auto = frame.Method{
	Name: Auto, Title: "a fast method, chosen by cross-validation on the rows at hand",
	Paper:     "the rows at hand",
	Map:       "linear",
	Streaming: "window",
	Params: []frame.Param{frame.RidgeParam("auto",
		"relative ridge of the chosen method, where it has one: auto (cross-validation), oas, or a number", true)},
}

// candidates are the methods that auto chooses from, in the order that decides between equal scores.
func candidates() []*frame.Method {
	var out []*frame.Method
	for _, m := range method.Table {
		if m.Auto != nil {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *frame.Method) int { return a.Auto.Rank - b.Auto.Rank })
	return out
}

// fewRows is the number of rows up to which auto takes its time: it deals them to
// folds fewRounds times, since which method wins depends on the deal there, and
// tries a kernel, and tnca for as many dimensions as there are classes too.
const (
	fewRows   = 500
	fewRounds = 4
)

// choose is Fit for a configuration that leaves the method, the dimension or
// both to the rows.
func choose(ctx context.Context, d *model.Data, c Config) (*model.Model, error) {
	method, _ := lookup(c.Method) // the configuration was checked
	if c.Method != Auto && !method.Supervised {
		c.Dim = 0
		return fitSettled(ctx, d, c)
	}
	if classes := presentClasses(d); c.Method == Auto && classes < 2 {
		// One class tells no more than none.
		rule := "no row has a label"
		if classes == 1 {
			rule = "all labelled rows are of one class"
		}
		return fitChosen(ctx, d, c, &model.Choice{Chosen: c.leftOpen(), Rule: rule, Method: "pca"})
	}
	start := time.Now()
	p, err := frame.Prepare(ctx, d, true, c.Scale == model.ScaleUnit, &model.Report{})
	if err != nil {
		return nil, err
	}
	a, err := newSelection(ctx, p, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Method, err)
	}
	ranked, err := a.rank(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Method, err)
	}
	if ranked == nil {
		choice := a.without()
		m, err := fitChosen(ctx, d, c, choice)
		if err != nil && c.Method == Auto && ctx.Err() == nil {
			// Where no class has two different rows labels tell nothing of its shape.
			choice.Method, choice.Rule = "pca", choice.Rule+"; "+err.Error()
			return fitChosen(ctx, d, c, choice)
		}
		return m, err
	}
	return a.fit(ctx, d, ranked, start)
}

// fit fits what held-out rows like best: the blend, or the first in the table.
func (a *selection) fit(ctx context.Context, d *model.Data, ranked []model.Score, start time.Time) (*model.Model, error) {
	instead := ""
	switch {
	case a.blended == nil:
	case a.beaten(ranked):
		instead = "no blend: held-out rows like one candidate better, their neighbours and a linear classifier together"
	default:
		m, err := a.fitBlended(ctx, d, ranked, start)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		instead = "no blend: " + strings.TrimPrefix(err.Error(), Blend+": ")
	}
	instead = cmp.Or(instead, a.settle(ranked))
	// On all rows the criterion may turn out to have fewer directions than there are
	// columns, or none: the next in the table takes its place.
	var first error
	for i, s := range ranked {
		choice := &model.Choice{Chosen: a.c.leftOpen(), Rule: "cv", Method: s.Method, Scale: s.Scale,
			Landmarks: s.Landmarks, Width: s.Width, Dim: s.Dim,
			Rounds: a.rounds(), LeftOut: a.leftOut, Seconds: time.Since(start).Seconds()}
		choice.Scores = taken(ranked, s, s.Dim)
		choice.RunnerUp = runnerUp(choice.Scores, 0, a.c.Method == Auto)
		if i > 0 {
			instead = fmt.Sprintf("%s at %d, which held-out rows like better, cannot be fitted on all rows: %v",
				ranked[0].Method, ranked[0].Dim, first)
		}
		choice.Note = cmp.Or(a.unreduced(choice.Dim), instead)
		m, err := fitChosen(ctx, d, a.c, choice)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// fitBlended fits the blend that was chosen. What it puts out on all rows may have fewer dimensions than were compared:
// where none is asked for it has those.
func (a *selection) fitBlended(ctx context.Context, d *model.Data, ranked []model.Score,
	start time.Time) (*model.Model, error) {
	choice := &model.Choice{Chosen: a.c.leftOpen(), Rule: "cv", Method: Blend, Dim: a.blendedDim(),
		Members: a.blended.members, Rounds: a.rounds(), LeftOut: a.leftOut,
		Seconds: time.Since(start).Seconds()}
	all := append(a.blended.scores(), ranked...)
	choice.Scores = taken(all, all[0], choice.Dim)
	choice.Note = a.unreduced(choice.Dim)
	m, err := fitChosen(ctx, d, a.c, choice)
	if fewer := (*model.DimError)(nil); a.c.Dim <= 0 && errors.As(err, &fewer) && fewer.Max > 0 {
		choice.Note, choice.Dim = fmt.Sprintf("%d outputs: %v", fewer.Max, err), fewer.Max
		return fitChosen(ctx, d, a.c, choice)
	}
	return m, err
}

// beaten tells whether the best candidate that no blend can have, a kernel, is better than the blend and not worse for
// neighbours. If so it comes first in the table.
func (a *selection) beaten(ranked []model.Score) bool {
	at := slices.IndexFunc(ranked, func(s model.Score) bool { return !a.entryOf(s).blendable() })
	if at < 0 || a.c.Blend > 0 {
		return false
	}
	first := ranked[at]
	e, d := a.entryOf(first), a.blendedDim()
	if behind, deviation := paired(a.blended.rightAt(d, a.p.N), e.rightAt(first.Dim, a.p.N)); behind > half*deviation {
		return false
	}
	if !a.better(e, first.Dim, a.blended, d) {
		return false
	}
	toFront(ranked, at)
	return true
}

// unreduced says where a dimension that was chosen is every column.
func (a *selection) unreduced(d int) string {
	if a.c.Dim > 0 || d < a.whole.Columns {
		return ""
	}
	return fmt.Sprintf("%d outputs of %d columns: on these rows every reduction loses", d, a.whole.Columns)
}

// presentClasses is the number of classes that have rows.
func presentClasses(d *model.Data) int {
	if d == nil {
		return 0
	}
	seen := map[int]bool{}
	for _, c := range d.Y {
		if c >= 0 {
			seen[c] = true
		}
	}
	return len(seen)
}

// leftOpen says what the configuration leaves to the rows.
func (c Config) leftOpen() string {
	switch {
	case c.Method != Auto:
		return "dim"
	case c.Dim > 0:
		return "method"
	}
	return "method and dim"
}

// runnerUp is the best after the one at i, of another method where methods were
// compared.
func runnerUp(ranked []model.Score, i int, methods bool) *model.Score {
	for j := range ranked {
		if j != i && (!methods || ranked[j].Method != ranked[i].Method) {
			return &ranked[j]
		}
	}
	return nil
}

// fitChosen fits what was chosen.
func fitChosen(ctx context.Context, d *model.Data, c Config, choice *model.Choice) (*model.Model, error) {
	c = c.Settled(choice)
	switch {
	case c.Landmarks > 0:
		return fitLandmarks(ctx, d, c)
	case c.Scale == model.ScaleRank:
		return fitRanked(ctx, d, c)
	}
	return fitSettled(ctx, d, c)
}

// Settled puts what was chosen in the place of Auto and AutoDim, so that other
// rows are fitted in the same way. The report of such a fit has the choice. A
// dimension of 0 is the method's default.
func (c Config) Settled(choice *model.Choice) Config {
	if c.withDefaults().Method == Auto {
		c.Params = candidateParams(choice.Method, c.Params["ridge"])
		c.Method, c.Nonlinear = choice.Method, false
		if len(choice.Members) > 0 {
			c.Params = map[string]string{"members": membersText(choice.Members)}
		}
		if c.Scale == model.ScaleAuto || c.Scale == "" {
			c.Scale = choice.Scale
		}
		if choice.Landmarks > 0 {
			c.Landmarks, c.Width = choice.Landmarks, choice.Width
		}
		if choice.Scale == model.ScaleRank {
			c.Scale = choice.Scale
		}
	}
	if c.Dim == AutoDim || c.Dim == 0 {
		c.Dim = choice.Dim
	}
	c.choice = choice
	return c
}

// candidateParams hands the ridge of auto on to a method that has one. auto
// itself is the default of every candidate.
func candidateParams(name, ridge string) map[string]string {
	m, err := lookup(name)
	if err != nil || m.Ridge == nil || ridge == "" || ridge == "auto" {
		return nil
	}
	return map[string]string{"ridge": ridge}
}

// byMoments is the choice without scores: lda, or pairacc, which goes on past
// C-1 directions.
func byMoments(c Config, classes, columns int) *model.Choice {
	choice := &model.Choice{Chosen: c.leftOpen(), Rule: "no rows are kept", Method: c.Method, Dim: max(c.Dim, 0)}
	switch {
	case c.Method != Auto:
	case classes < 2:
		choice.Method = "pca"
	case c.Dim <= min(classes-1, columns):
		choice.Method = "lda"
	default:
		choice.Method = "pairacc"
	}
	return choice
}

// chooseByMoments settles what a configuration leaves open where no rows are
// kept. Where that is the dimension alone, it is the method's default.
func chooseByMoments(s *moments.Set, c *Config) {
	classes := 0
	for k := range s.Classes() {
		if s.Count(k) > 0 {
			classes++
		}
	}
	if c.Method != Auto {
		c.Dim = 0
		return
	}
	*c = c.Settled(byMoments(*c, classes, s.M()))
}
