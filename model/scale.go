package model

// Scale says how features are scaled before the method sees them.
type Scale string

const (
	ScaleStandard Scale = "standard" // unit variance; the default
	ScaleMinMax   Scale = "minmax"   // unit range
	ScaleUnit     Scale = "unit"     // each row divided by its Euclidean norm
	ScaleNone     Scale = "none"
	// ScaleRank are normal scores: the share of the rows below a value, as the normal distribution has it. New values
	// lie between those of the fit. What a linear method makes of them is curved along each feature.
	ScaleRank Scale = "rank"
	ScaleAuto Scale = "auto" // of auto: standard, none or minmax, as held-out rows like it; else standard
)
