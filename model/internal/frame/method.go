package frame

import (
	"context"
)

// Method is one way to learn a projection.
type Method struct {
	Name       string  `json:"name"`
	Title      string  `json:"title"`
	Paper      string  `json:"paper"`
	Supervised bool    `json:"supervised"`
	Map        string  `json:"map"`       // linear, kernel or extension
	Streaming  string  `json:"streaming"` // moments: fits from statistics alone; window: needs the rows
	Params     []Param `json:"params"`

	// dim is the dimension where none is asked for; bound the largest one that
	// the rows allow, with the words that name it in an error.
	Dim   func(*Task) int
	Bound func(*Task) (int, string)
	Ridge *RidgeRule // nil: no ridge parameter
	Fit   func(context.Context, *Task) (*Solution, error)
	// samples: the fit looks at the rows themselves, in task.x.
	Samples bool
	// secondByClass: the fit reads second moments of every class.
	SecondByClass bool
}
