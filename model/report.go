package model

import (
	"time"
)

// Choice is how auto decided: by 3-fold cross-validation of a nearest-neighbour classifier, in 4 rounds for up to 500
// rows. If near-duplicates follow each other, as in a time series, they are dealt to different folds and all scores
// are too good.
type Choice struct {
	Chosen    string  `json:"of"`   // what was chosen: method, dim, or method and dim
	Rule      string  `json:"rule"` // cv, or why there was none
	Method    string  `json:"method"`
	Scale     Scale   `json:"scale,omitempty"`     // if scales were compared
	Landmarks int     `json:"landmarks,omitempty"` // number of landmarks; 0: none
	Width     float64 `json:"width,omitempty"`     // of their kernels
	Dim       int     `json:"dim"`
	Rounds    int     `json:"rounds,omitempty"` // of 3 folds each; a row is scored once in a round
	// Members are what the model blends, best first, if Method is blend.
	Members  []Member `json:"members,omitempty"`
	RunnerUp *Score   `json:"runner_up,omitempty"` // the best of another method or, if that was given, of another dim
	Scores   []Score  `json:"scores,omitempty"`    // the chosen one, then best first
	Note     string   `json:"note,omitempty"`
	// Candidates that could not be fitted, with the reason.
	LeftOut []string `json:"left_out,omitempty"`
	Seconds float64  `json:"seconds,omitempty"`
}

// Score is how many of the scored rows had a nearest neighbour of their own class in the outputs of a method, and how
// that compares with the chosen one.
type Score struct {
	Method    string            `json:"method"`
	Scale     Scale             `json:"scale,omitempty"`     // if scales were compared
	Landmarks int               `json:"landmarks,omitempty"` // number of landmarks; 0: none
	Width     float64           `json:"width,omitempty"`     // of their kernels
	Dim       int               `json:"dim"`
	Params    map[string]string `json:"params,omitempty"` // if they were compared: those that are not the default
	Correct   float64           `json:"correct"`          // rows, each as its mean over the rounds
	Scored    int               `json:"scored"`           // rows, each counted once
	// Behind is how many of the scored rows fewer are correct than with the chosen candidate, as a share, and
	// BehindError its standard error: of the differences on the same rows, where it is known which are correct.
	Behind      float64 `json:"behind,omitempty"`
	BehindError float64 `json:"behind_error,omitempty"`
}

// Member is a candidate that a blend is made of.
type Member struct {
	Method    string            `json:"method"`
	Scale     Scale             `json:"scale"`
	Landmarks int               `json:"landmarks,omitempty"` // number of landmarks; 0: none
	Width     float64           `json:"width,omitempty"`     // of their kernels
	Dim       int               `json:"dim"`
	Params    map[string]string `json:"params,omitempty"` // that are not the default
	// Adds is how many more held-out rows of one round are correct than in a blend of the other members.
	Adds int `json:"adds"`
}

// Report is what a fit found and decided. It is not part of a model's digest.
type Report struct {
	Choice *Choice `json:"choice,omitempty"` // of method and dimension, if these were left open

	Rows       int `json:"rows"`                 // rows the fit used
	Unlabelled int `json:"unlabelled,omitempty"` // rows left out because they had no label
	Imputed    int `json:"imputed,omitempty"`    // missing values replaced by the feature's mean
	Constant   int `json:"constant,omitempty"`   // features without variance; they keep scale 1 and have no effect

	// Rank is the numerical rank of the total scatter: no map has more independent outputs.
	Rank int `json:"rank"`
	// Informative is the number of directions that the criterion decides, at most the rank. Outputs past it follow from a
	// tie-break.
	Informative int `json:"informative"`

	Ridge       *Ridge    `json:"ridge,omitempty"` // nil: the method has none
	Eigenvalues []float64 `json:"eigenvalues,omitempty"`
	// Gap is the smallest relative distance between a wanted eigenvalue and its neighbour; nil if there is only one. If it
	// is near zero, columns may rotate into each other from fit to fit.
	Gap  *float64 `json:"gap,omitempty"`
	Ties [][2]int `json:"ties,omitempty"` // runs [from, to) of columns in one eigenspace
	// Residual of the eigenproblem, relative to its largest eigenvalue; 0 if the outputs come from a search.
	Residual float64 `json:"residual,omitempty"`

	Search *Search `json:"search,omitempty"` // of methods that optimise a criterion iteratively
	// Convergence is how the fit ended; "" in files of versions that did not record it.
	Convergence Convergence `json:"convergence,omitempty"`

	Notes  []string `json:"notes,omitempty"` // sentences about what was clamped, dropped or replaced
	Phases []Phase  `json:"phases,omitempty"`
}

// Ridge is the ridge of the denominator and how it was chosen.
type Ridge struct {
	Relative float64 `json:"relative"` // r of rho = r tr(D)/columns
	Absolute float64 `json:"absolute"` // rho
	Columns  int     `json:"columns"`  // columns after the rank cut in front
	Rule     string  `json:"rule"`     // cv, oas or fixed
	// s of the oracle approximating shrinkage, if it was computed
	Shrinkage *float64     `json:"shrinkage,omitempty"`
	Share     float64      `json:"share,omitempty"`  // of the variance that PCA keeps, if chosen
	Scores    []RidgeScore `json:"scores,omitempty"` // of cross-validation
}

// RidgeScore is one candidate of the cross-validation: how many of the scored rows had a nearest neighbour of their
// own class.
type RidgeScore struct {
	Ridge   float64 `json:"ridge"` // with OAS that of all rows, while each fold has its own
	OAS     bool    `json:"oas,omitempty"`
	Share   float64 `json:"share,omitempty"`  // see Ridge.Share
	Kernel  string  `json:"kernel,omitempty"` // if chosen
	Correct int     `json:"correct"`
	Scored  int     `json:"scored"`
}

// Convergence is how a fit ended.
type Convergence string

const (
	Direct    Convergence = "direct"    // an eigenproblem or a linear system: there was no search
	Converged Convergence = "converged" // a search ended at a gradient near zero, or a step that gained little
	Stopped   Convergence = "stopped"   // a search ended before that, mostly at its limit of steps
)

// Search is the course of an iterative method.
type Search struct {
	Start    float64 `json:"start"` // criterion at the start and at the end
	End      float64 `json:"end"`
	Gradient float64 `json:"gradient"`        // norm of the gradient at the end
	Steps    int     `json:"steps"`           // of all starts together
	Limit    int     `json:"limit,omitempty"` // of steps from one start
	// Converged: the search ended at a gradient near zero or a step that gained little, not at its limit of steps from
	// one start.
	Converged bool `json:"converged"`
	// Share of the sampled rows whose nearest other row has their class, in the outputs at the start and at the end; nil
	// if it was not computed.
	StartAccuracy *float64 `json:"start_accuracy,omitempty"`
	EndAccuracy   *float64 `json:"end_accuracy,omitempty"`
}

// Phase is the time of one part of a fit.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// Phase starts a phase and returns the function that ends it.
func (r *Report) Phase(name string) func() {
	start := time.Now()
	return func() {
		r.Phases = append(r.Phases, Phase{name, time.Since(start).Seconds()})
	}
}

// Note adds a note.
func (r *Report) Note(s string) { r.Notes = append(r.Notes, s) }
