package model

// Scale says how features are scaled before the method sees them.
type Scale string

const (
	ScaleStandard Scale = "standard" // unit variance; the default
	ScaleMinMax   Scale = "minmax"   // unit range
	ScaleUnit     Scale = "unit"     // each row divided by its Euclidean norm
	ScaleNone     Scale = "none"
)
