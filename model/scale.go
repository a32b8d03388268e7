package model

// Scale says how features are scaled before the method sees them.
type Scale string

const (
	ScaleStandard Scale = "standard" // unit variance; the default
	ScaleMinMax   Scale = "minmax"   // unit range
	ScaleUnit     Scale = "unit"     // each row divided by its Euclidean norm
	ScaleNone     Scale = "none"
	ScaleAuto     Scale = "auto" // of auto: standard, none or minmax, as held-out rows like it; else standard
)
