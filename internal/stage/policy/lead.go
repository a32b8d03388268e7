package policy

import "math"

// Lead is the difference in accuracy between two models on recent rows.
type Lead struct {
	Last   Differences `json:"last"`
	Before Differences `json:"before"`
}

// Differences sums differences between two models.
type Differences struct {
	Rows    float64 `json:"rows"`
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`
}

// Add counts the difference on one row.
func (l *Lead) Add(v float64) {
	if l.Last.Rows >= recentRows {
		l.Before, l.Last = l.Last, Differences{}
	}
	l.Last.Rows++
	l.Last.Sum += v
	l.Last.Squares += v * v
}

// Mean returns the mean difference, and whether it exceeds the minimum gain by two standard errors. Choosing the rows
// of a fit needs less certainty than promoting a model: the gate still has to pass the candidate.
func (l *Lead) Mean() (mean float64, certain bool) {
	n := l.Last.Rows + l.Before.Rows
	if n < minRows {
		return 0, false
	}
	mean = (l.Last.Sum + l.Before.Sum) / n
	spread := math.Sqrt(max((l.Last.Squares+l.Before.Squares)/n-mean*mean, 0) / n)
	return mean, mean > minGain+2*spread
}
