package policy

import "math"

// recentRows is the number of rows after which the older half of what is counted is forgotten: recent means the last
// 500 to 1,000 rows.
const recentRows = 500

// Agreement counts how often the classes that a model predicts for recent rows are their labels, and how often they
// would be if labels were independent of the predictions (Cohen, Educ. Psychol. Meas. 20, 1960).
type Agreement struct {
	Last, Before Confusion
}

// Confusion is the marginals of a confusion matrix.
type Confusion struct {
	Rows      float64            `json:"rows"`
	Right     float64            `json:"right"`
	True      map[string]float64 `json:"true,omitempty"`  // rows by label
	Predicted map[string]float64 `json:"taken,omitempty"` // rows by predicted class
}

// Add counts a row; right in [0, 1] is the share of it that the model is right about.
func (a *Agreement) Add(right float64, label, class string) {
	if a.Last.Rows >= recentRows {
		a.Before, a.Last = a.Last, Confusion{}
	}
	l := &a.Last
	if l.True == nil {
		l.True, l.Predicted = map[string]float64{}, map[string]float64{}
	}
	l.Rows++
	l.Right += right
	l.True[label]++
	l.Predicted[class]++
}

// Rate is the accuracy on recent rows; NaN if there are none.
func (a *Agreement) Rate() float64 {
	return (a.Last.Right + a.Before.Right) / (a.Last.Rows + a.Before.Rows)
}

// Chance is the accuracy that independent labels would have.
func (a *Agreement) Chance() float64 {
	n, sum := a.Last.Rows+a.Before.Rows, 0.0
	for label, v := range a.Last.True {
		sum += (v + a.Before.True[label]) * (a.Last.Predicted[label] + a.Before.Predicted[label])
	}
	for label, v := range a.Before.True {
		if _, counted := a.Last.True[label]; !counted {
			sum += v * (a.Last.Predicted[label] + a.Before.Predicted[label])
		}
	}
	return sum / (n * n)
}

// AboveChance reports whether Rate exceeds Chance by three standard errors.
func (a *Agreement) AboveChance() bool {
	n, p := a.Last.Rows+a.Before.Rows, a.Chance()
	return n >= 20 && a.Rate() > p+3*math.Sqrt(p*(1-p)/n)
}
