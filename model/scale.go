package model

// Scale is how features are scaled before a method sees them.
type Scale string

const (
	ScaleStandard Scale = "standard" // unit variance; the default
	ScaleMinMax   Scale = "minmax"   // unit range
	ScaleUnit     Scale = "unit"     // each row divided by its Euclidean norm
	ScaleNone     Scale = "none"
	// ScaleRank is normal scores: the quantile of the normal distribution at the share of rows below a value. Scores of
	// new values are interpolated. A linear method on them makes a map that is curved along each feature.
	ScaleRank Scale = "rank"
	ScaleAuto Scale = "auto" // for auto: standard, none or minmax by cross-validation; else standard
)
