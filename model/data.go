package model

// Subset copies the rows at the given indices. The rows must be in X, not Stored.
func (d *Data) Subset(rows []int) *Data {
	s := &Data{N: len(rows), M: d.M, Classes: d.Classes, Features: d.Features, X: make([]float64, 0, len(rows)*d.M)}
	for _, i := range rows {
		s.X = append(s.X, d.X[i*d.M:(i+1)*d.M]...)
		if d.Y != nil {
			s.Y = append(s.Y, d.Y[i])
		}
		if d.Groups != nil {
			s.Groups = append(s.Groups, d.Groups[i])
		}
	}
	return s
}

// Data is the rows of a fit, which does not change them.
type Data struct {
	X        []float64 // n x m row-major; NaN is a missing value
	N, M     int
	Y        []int    // index into Classes of each row, -1 for no label; nil: none has one
	Classes  []string // names, in any order; the model lists them as given
	Features []string // m names; nil: x0, x1, ...
	// Groups is the group of each row: rows that depend on each other, such as rows of one source or of one
	// stretch of time.
	// Cross-validation has no group in two folds. nil: rows are independent.
	Groups []int
	// Stored has the rows instead of X, which is nil then. Package fit documents which fits read them a block at a time.
	// Their values must be finite.
	Stored RowReader
}

// RowReader reads rows that are kept outside of memory, such as in a file. It is safe for concurrent use.
type RowReader interface {
	// ReadRows fills dst with whole rows, from row from on.
	ReadRows(dst []float64, from int) error
}
