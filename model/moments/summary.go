package moments

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/embedd/embedd/model/internal/linalg"
)

// Summary is the statistics of the rows in a Set, about their mean.
type Summary struct {
	Weight float64   // number of rows
	Mean   []float64 // of the rows, unscaled
	// Counts and Means have one entry for each class of the set: its rows and its mean minus Mean (zero for a class
	// without rows).
	Counts []float64
	Means  *mat.Dense // Classes x m, nil without classes
	// Total is (1/Weight) sum (x - Mean)(x - Mean)'.
	Total *mat.SymDense
	// Second is sum (x - Mean)(x - Mean)' of each class, if the set has second moments by class; nil for a class without
	// rows.
	Second []*mat.SymDense
}

// Summary computes the statistics about the mean, of the labelled rows or of all rows. It costs O(m^2), and with
// second moments by class O(C m^2).
func (s *Set) Summary(labelledOnly bool) (*Summary, error) {
	if s.m < 1 {
		return nil, fmt.Errorf("moments: no rows")
	}
	out := &Summary{Mean: make([]float64, s.m), Total: linalg.NewSym(s.m)}
	first := 0
	if labelledOnly {
		first = 1
	}
	sum := make([]float64, s.m) // of x - r
	for k := first; k < len(s.weight); k++ {
		out.Weight += s.weight[k]
		for j, v := range s.sum[k] {
			sum[j] += v
		}
	}
	if !(out.Weight > 0) {
		return nil, fmt.Errorf("moments: no rows")
	}
	mu := make([]float64, s.m) // mean of x - r
	for j := range mu {
		mu[j] = sum[j] / out.Weight
		out.Mean[j] = s.shift[j] + mu[j]
	}
	for k := first; k < len(s.second); k++ {
		if s.second[k] != nil {
			out.Total.AddSym(out.Total, s.second[k])
		}
	}
	raw := make([]float64, s.m)
	for j := range raw {
		raw[j] = out.Total.At(j, j)
	}
	// sum (x-r-mu)(x-r-mu)' = M - n mu mu'.
	rankTwo(out.Total, mu, mu, 0, -out.Weight)
	for j := range raw {
		v := out.Total.At(j, j)
		if v < 0 {
			if v < -1e-9*raw[j] || raw[j] < 0 {
				return nil, fmt.Errorf("moments: feature %d has second moment %.3g; rebuild the set from its rows", j, v)
			}
			out.Total.SetSym(j, j, 0)
		}
	}
	out.Total.ScaleSym(1/out.Weight, out.Total)

	classes := s.Classes()
	if classes == 0 {
		return out, nil
	}
	out.Counts = make([]float64, classes)
	out.Means = mat.NewDense(classes, s.m, nil)
	if s.perClass {
		out.Second = make([]*mat.SymDense, classes)
	}
	for c := range classes {
		n := s.weight[c+1]
		if s.sum[c+1] == nil || n == 0 {
			continue
		}
		out.Counts[c] = n
		row := out.Means.RawRowView(c)
		for j, v := range s.sum[c+1] {
			row[j] = v/n - mu[j]
		}
		if s.perClass {
			d := mat.NewSymDense(s.m, nil)
			d.CopySym(s.second[c+1])
			rankTwo(d, s.sum[c+1], mu, -1, n)
			out.Second[c] = d
		}
	}
	return out, nil
}

// Mean is the mean of feature j over all rows, 0 if there are none.
func (s *Set) Mean(j int) float64 {
	weight, sum := 0.0, 0.0
	for _, w := range s.weight {
		weight += w
	}
	if !(weight > 0) {
		return 0
	}
	if s.labelled != nil {
		sum = s.labelled[j]
	}
	if s.sum[0] != nil {
		sum += s.sum[0][j]
	}
	return s.shift[j] + sum/weight
}
