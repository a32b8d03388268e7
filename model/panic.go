package model

import (
	"github.com/embedd/embedd/model/internal/parallel"
)

// Panic is a panic as an error: of a function that a caller gave, such as
// Criterion.Build or Config.Progress, or of the library itself. Fit, FitMoments,
// Evaluate, Project, Align and Read return it, with a name in
// front, wherever the panic was; see errors.As.
type Panic = parallel.Panic
