package plugin

import (
	"math"

	"github.com/embedd/embedd/plugin/window"
)

// agreement is how often a model takes recent rows for what they are, beside how often it would by chance: with labels
// that have nothing to do with the rows the two are the same, whatever the shares of the classes (Cohen, Educ. Psychol.
// Meas. 20, 1960). Recent is the last 500 to 1,000 rows.
type agreement struct {
	Last, Before agreed
}

// agreed counts some rows.
type agreed struct {
	Rows  float64            `json:"rows"`
	Right float64            `json:"right"`
	True  map[string]float64 `json:"true,omitempty"`  // rows of each class
	Taken map[string]float64 `json:"taken,omitempty"` // rows taken for each class
}

const agreementRows = 500

func (a *agreement) add(right float64, label, class string) {
	if a.Last.Rows >= agreementRows {
		a.Before, a.Last = a.Last, agreed{}
	}
	l := &a.Last
	if l.True == nil {
		l.True, l.Taken = map[string]float64{}, map[string]float64{}
	}
	l.Rows++
	l.Right += right
	l.True[label]++
	l.Taken[class]++
}

// addAll counts a verdict on rows.
func (a *agreement) addAll(v verdict, rows []window.Row) {
	for i, right := range v.right {
		class := ""
		if v.class != nil {
			class = v.class[i]
		}
		a.add(right, rows[i].Label, class)
	}
}

// rate is the share of recent rows that the model is right about; NaN where there are none.
func (a *agreement) rate() float64 {
	return (a.Last.Right + a.Before.Right) / (a.Last.Rows + a.Before.Rows)
}

// chance is what rate would be if labels had nothing to do with what the model says.
func (a *agreement) chance() float64 {
	n, sum := a.Last.Rows+a.Before.Rows, 0.0
	for label, v := range a.Last.True {
		sum += (v + a.Before.True[label]) * (a.Last.Taken[label] + a.Before.Taken[label])
	}
	for label, v := range a.Before.True {
		if _, counted := a.Last.True[label]; !counted {
			sum += v * (a.Last.Taken[label] + a.Before.Taken[label])
		}
	}
	return sum / (n * n)
}

// aboveChance tells whether the model knows something of the labels: rate exceeds chance by three standard errors.
func (a *agreement) aboveChance() bool {
	n, p := a.Last.Rows+a.Before.Rows, a.chance()
	return n >= 20 && a.rate() > p+3*math.Sqrt(p*(1-p)/n)
}
