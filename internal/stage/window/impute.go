package window

import (
	"math"
	"slices"

	"github.com/embedd/embedd/model/moments"
)

// markMissing makes features that are not finite NaN, and notes whether there are any.
func (r *Row) markMissing() {
	r.hasMissing = false
	for j, v := range r.X {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.X[j], r.hasMissing = math.NaN(), true
		}
	}
}

// rowMoments are the moments of some rows, with missing features replaced by the mean. A feature without a value in all
// of these rows is 0 in the sums until merge gives it the mean of other rows.
type rowMoments struct {
	*moments.Set
	absent []int // the features without a value, ascending
}

// rows is the number of rows in the sums.
func (s *rowMoments) rows() (n float64) {
	for c := -1; c < s.Classes(); c++ {
		n += s.Count(c)
	}
	return n
}

// merge merges moments of distinct rows into an empty set.
func merge(parts []*rowMoments, into *moments.Set) (*rowMoments, error) {
	out := &rowMoments{Set: into}
	fill := make(map[int]float64)
	for _, p := range parts {
		for _, j := range p.absent {
			if _, known := fill[j]; known || slices.Contains(out.absent, j) {
				continue
			}
			if mean, ok := meanOf(parts, j); ok {
				fill[j] = mean
			} else {
				out.absent = append(out.absent, j)
			}
		}
	}
	slices.Sort(out.absent)
	for _, p := range parts {
		values := make([]float64, len(p.absent))
		for i, j := range p.absent {
			values[i] = fill[j] // 0 if no part has a value
		}
		if err := out.MergeFilled(p.Set, p.absent, values); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// meanOf is the mean of a feature over the parts that have values of it. It is false if none has.
func meanOf(parts []*rowMoments, j int) (float64, bool) {
	sum, rows := 0.0, 0.0
	for _, p := range parts {
		if n := p.rows(); n > 0 && !slices.Contains(p.absent, j) {
			sum, rows = sum+float64(n*p.Mean(j)), rows+n
		}
	}
	return sum / rows, rows > 0
}

// imputer replaces missing features by means. The zero value leaves them missing.
type imputer struct {
	mean   []float64
	absent []int // features without a value, whose mean is 0
}

// newImputer returns the means of the rows that enter fits. others are the moments of the other rows of their block, or
// nil; features that these have get their mean.
func newImputer(rows []*Row, others *rowMoments) (p imputer) {
	if !slices.ContainsFunc(rows, func(r *Row) bool { return r.hasMissing && r.isFitted() }) {
		return imputer{}
	}
	c := columnMeans{}
	for _, r := range rows {
		if r.isFitted() {
			c.add(r.fitted())
		}
	}
	p = c.imputer()
	if others == nil || others.rows() == 0 {
		return p
	}
	for j := range p.mean {
		if !slices.Contains(others.absent, j) {
			p.mean[j] = others.Mean(j)
		}
	}
	p.absent = slices.DeleteFunc(p.absent, func(j int) bool { return !slices.Contains(others.absent, j) })
	return p
}

// fill replaces the missing features of a row.
func (p *imputer) fill(x []float64) {
	for j, v := range x {
		if math.IsNaN(v) {
			x[j] = p.mean[j]
		}
	}
}

// columnMeans adds up the values of each feature that are not missing.
type columnMeans struct {
	sum   []float64
	count []int
}

func (c *columnMeans) add(x []float64) {
	if c.sum == nil {
		c.sum, c.count = make([]float64, len(x)), make([]int, len(x))
	}
	for j, v := range x {
		if !math.IsNaN(v) {
			c.sum[j] += v
			c.count[j]++
		}
	}
}

func (c *columnMeans) imputer() (p imputer) {
	p.mean = make([]float64, len(c.sum))
	for j, n := range c.count {
		if n == 0 {
			p.absent = append(p.absent, j)
		} else {
			p.mean[j] = c.sum[j] / float64(n)
		}
	}
	return p
}

// fillAbsent sets features that are missing in all rows to 0, as in moments. A fit replaces the other missing ones by
// their mean.
func (s *Suffix) fillAbsent() {
	m := len(s.X) / s.Rows
	c := columnMeans{}
	for i := range s.Rows {
		c.add(s.X[i*m : (i+1)*m])
	}
	for _, j := range c.imputer().absent {
		for i := range s.Rows {
			s.X[i*m+j] = 0
		}
	}
}
