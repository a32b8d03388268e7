package frame

import (
	"context"
)

// Method is one way to learn a projection: all that anything needs to know of it.
type Method struct {
	Name       string
	Title      string
	Paper      string
	Supervised bool
	Map        string // linear, kernel or extension
	Streaming  string // moments: fits from statistics alone; window: needs the rows
	Params     []Param

	// Dim is the dimension where none is asked for; Bound the largest one that the rows allow, with the words that
	// name it in an error.
	Dim   func(*Task) int
	Bound func(*Task) (int, string)
	Ridge *RidgeRule // nil: no ridge parameter
	Fit   func(context.Context, *Task) (*Solution, error)
	// Samples: the fit looks at the rows themselves, in Task.X.
	Samples bool
	// Held is the most that the fit holds beside its rows, in bytes, as measured; nil: nothing that grows with them.
	Held func(Extent) int64
	// Most is the number of rows that it can be fitted of at most; 0: any.
	Most int
	// SecondByClass: the fit reads second moments of every class.
	SecondByClass bool
	// Nested: the first columns at a dimension are the answer for fewer, so that one fit scores all dimensions.
	Nested bool
	// Auto, where set, makes the method a candidate of auto.
	Auto *Candidate
	// InFolds are what parameters beside the ridge are in the folds of a choice where they are auto: to choose them is
	// left for the winner.
	InFolds map[string]string
}

// Candidate says when auto tries a method.
type Candidate struct {
	// Rank orders the candidates, from 1: of two with equal scores the lower one wins.
	Rank int
	// Tried says whether auto tries the method at d dimensions of so many classes; few: there are so few rows that
	// it takes its time. nil: always.
	Tried func(d, classes int, few bool) bool
	// OneScale: it is tried at the first scale alone: it is slow, or says the same at every scale.
	OneScale bool
	// Landmarks: it is tried behind landmarks too, where auto may be nonlinear.
	Landmarks bool
	// Settings are further ones to try where it is among the best.
	Settings []map[string]string
}
