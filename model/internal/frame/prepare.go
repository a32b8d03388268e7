package frame

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/model/internal/fail"
	"github.com/embedd/embedd/model/internal/linalg"
	"github.com/embedd/embedd/model/internal/mapping"
	"github.com/embedd/embedd/model/internal/parallel"
)

// Rows is the rows that a fit uses: finite, and divided by their norm if requested.
type Rows struct {
	X       []float64 // n x m; the given ones, if nothing had to change; nil if they are stored
	N, M    int
	Y       []int       // class of each row; nil for methods without labels
	Classes []string    // class names
	Data    *model.Data // where the rows come from
	Index   []int       // index of each row there
	Groups  []int       // group of each row; nil: rows are independent
}

// Prepare checks the data, leaves out rows that a supervised method cannot use, and imputes missing values by the mean
// of the present ones.
func Prepare(ctx context.Context, d *model.Data, supervised, unit bool, report *model.Report) (*Rows, error) {
	if err := check(d); err != nil {
		return nil, err
	}
	p := &Rows{M: d.M, Classes: d.Classes, Data: d, Index: make([]int, 0, d.N)}
	if err := p.choose(supervised, report); err != nil {
		return nil, err
	}
	if d.Stored != nil {
		return p, nil
	}
	missing, err := p.hasMissing(ctx)
	if err != nil {
		return nil, err
	}
	if p.N == d.N && !missing && !unit {
		p.X = d.X
		return p, nil
	}
	p.copyRows(report)
	if unit {
		for i := range p.N {
			row := p.X[i*p.M : (i+1)*p.M]
			norm := linalg.RowNorm(row)
			for j := range row {
				row[j] /= norm
			}
		}
	}
	return p, p.impute(d.Features, report)
}

// check compares the sizes of data.
func check(d *model.Data) error {
	switch {
	case d == nil:
		return fmt.Errorf("data: none given")
	case d.N < 0 || d.M < 1 || (len(d.X)/d.M != d.N || len(d.X)%d.M != 0) && d.Stored == nil:
		return fmt.Errorf("data: %d values are not %d rows x %d features", len(d.X), d.N, d.M)
	case d.Y != nil && len(d.Y) != d.N:
		return fmt.Errorf("data: %d labels for %d rows", len(d.Y), d.N)
	case d.Groups != nil && len(d.Groups) != d.N:
		return fmt.Errorf("data: %d groups for %d rows", len(d.Groups), d.N)
	case d.Features != nil && len(d.Features) != d.M:
		return fmt.Errorf("data: %d feature names for %d features", len(d.Features), d.M)
	}
	if err := mapping.CheckNames(d.Features, d.Classes); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

// choose lists the rows of a fit, the labelled ones if it is supervised, with their classes and groups.
func (p *Rows) choose(supervised bool, report *model.Report) error {
	d := p.Data
	if supervised {
		p.Y = make([]int, 0, d.N)
	}
	for i := range d.N {
		c := -1
		if d.Y != nil {
			c = d.Y[i]
		}
		if c < -1 || c >= len(d.Classes) {
			return fmt.Errorf("data: row %d has class %d of %d", i, c, len(d.Classes))
		}
		if supervised {
			if c < 0 {
				report.Unlabelled++
				continue
			}
			p.Y = append(p.Y, c)
		}
		p.Index = append(p.Index, i)
		if d.Groups != nil {
			p.Groups = append(p.Groups, d.Groups[i])
		}
		p.N++
	}
	if p.N < 2 {
		kind := "rows"
		if supervised {
			kind = "labelled rows"
		}
		return fmt.Errorf("data: %d %s (of %d rows); a fit needs at least 2: give more", p.N, kind, d.N)
	}
	return nil
}

// copyRows copies the rows of the fit. Infinite values count as missing.
func (p *Rows) copyRows(report *model.Report) {
	p.X = make([]float64, 0, p.N*p.M)
	for _, i := range p.Index {
		p.X = append(p.X, p.Data.X[i*p.M:(i+1)*p.M]...)
	}
	infinite := 0
	for k, v := range p.X {
		if math.IsInf(v, 0) {
			p.X[k] = math.NaN()
			infinite++
		}
	}
	if infinite > 0 {
		report.Note(fmt.Sprintf("%d infinite values count as missing", infinite))
	}
}

// hasMissing reports whether a value is missing: NaN or infinite, as in a projection.
func (p *Rows) hasMissing(ctx context.Context) (bool, error) {
	gaps := make([]bool, p.N)
	err := parallel.Each(ctx, p.N, func(k int) { gaps[k] = !linalg.AllFinite(p.Data.X[p.Index[k]*p.M:][:p.M]) })
	return slices.Contains(gaps, true), err
}

func (p *Rows) impute(features []string, report *model.Report) error {
	missing := make([]int, p.M)
	for k, v := range p.X {
		if math.IsNaN(v) {
			missing[k%p.M]++
			report.Imputed++
		}
	}
	if report.Imputed == 0 {
		return nil
	}
	for j, k := range missing {
		if k == p.N {
			return fmt.Errorf("data: feature %s is missing, infinite or beyond float32 in each of %d rows; leave it out",
				FeatureName(features, j), p.N)
		}
		if k == 0 {
			continue
		}
		mean := 0.0
		for i := range p.N {
			if v := p.X[i*p.M+j]; !math.IsNaN(v) {
				mean += v / float64(p.N-k)
			}
		}
		for i := range p.N {
			if at := i*p.M + j; math.IsNaN(p.X[at]) {
				p.X[at] = mean
			}
		}
	}
	report.Note(fmt.Sprintf("%d missing values were replaced by the mean of their feature", report.Imputed))
	return nil
}

// FeatureNames are the names of m features, or x0, x1, ...
func FeatureNames(names []string, m int) []string {
	if names != nil {
		return slices.Clone(names)
	}
	names = make([]string, m)
	for j := range names {
		names[j] = fmt.Sprintf("x%d", j)
	}
	return names
}

// FeatureName names a feature in an error.
func FeatureName(names []string, j int) string {
	if j < len(names) {
		return fmt.Sprintf("%q", names[j])
	}
	return fmt.Sprintf("%d", j)
}

// dataOf returns some of the rows before preprocessing.
func (p *Rows) dataOf(rows []int) *model.Data {
	d := &model.Data{N: len(rows), M: p.M, Classes: p.Classes, X: make([]float64, 0, len(rows)*p.M)}
	for _, r := range rows {
		if p.Data.Stored != nil {
			d.X = append(d.X, p.row(r)...)
		} else {
			at := p.Index[r]
			d.X = append(d.X, p.Data.X[at*p.M:(at+1)*p.M]...)
		}
		d.Y = append(d.Y, p.Y[r])
		if p.Groups != nil {
			d.Groups = append(d.Groups, p.Groups[r])
		}
	}
	return d
}

// Spread is the mean and the variance of each feature of rows in memory.
func (p *Rows) Spread() (mean, variance []float64) {
	mean = linalg.Mean(p.N, p.M, p.row)
	squares := make([]float64, p.M)
	return mean, linalg.Mean(p.N, p.M, func(i int) []float64 {
		for j, v := range p.row(i) {
			squares[j] = (v - mean[j]) * (v - mean[j])
		}
		return squares
	})
}

// IsStored reports whether the rows are not in memory.
func (p *Rows) IsStored() bool { return p.X == nil && p.Data != nil && p.Data.Stored != nil }

// row returns a row. One that is not in memory is read.
func (p *Rows) row(i int) []float64 {
	if p.IsStored() {
		return p.read(make([]float64, p.M), i)
	}
	return p.X[i*p.M : (i+1)*p.M]
}

// read fills x with stored rows, from row from on.
func (p *Rows) read(x []float64, from int) []float64 {
	n := len(x) / p.M
	for at := 0; at < n; {
		end := at + 1
		for end < n && p.Index[from+end] == p.Index[from+end-1]+1 {
			end++
		}
		fail.Check(p.Data.Stored.ReadRows(x[at*p.M:end*p.M], p.Index[from+at]))
		at = end
	}
	return x
}

// Subset is some of the rows.
func (p *Rows) Subset(rows []int) *Rows {
	s := &Rows{N: len(rows), M: p.M, Classes: p.Classes, Data: p.Data, X: make([]float64, 0, len(rows)*p.M)}
	for _, r := range rows {
		s.X = append(s.X, p.row(r)...)
		if p.Y != nil {
			s.Y = append(s.Y, p.Y[r])
		}
		if p.Groups != nil {
			s.Groups = append(s.Groups, p.Groups[r])
		}
		s.Index = append(s.Index, p.Index[r])
	}
	return s
}

// ByClass is the rows of each class, in order.
func (p *Rows) ByClass() map[int][]int {
	rows := map[int][]int{}
	for i, c := range p.Y {
		rows[c] = append(rows[c], i)
	}
	return rows
}
