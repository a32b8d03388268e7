package evidence

import "math"

// Clusters estimates the design effect of outcomes that were drawn in clusters: the factor by which the variance of
// their mean exceeds that of as many independent outcomes. Each class has its own mean, so that a difference between
// classes is no dependence.
//
// Liang and Zeger, Biometrika 73, 1986; Kish, Survey Sampling, 1965.
type Clusters struct {
	outcomes []clusterOutcome
}

type clusterOutcome struct {
	cluster int
	class   string
	value   float64
}

// priorOutcomes is the number of outcomes, of the variance of a fair coin, that are added with the design effect of
// what is unknown: few outcomes may agree by chance.
const priorOutcomes = 16

// Add adds an outcome in [-1, 1]. Outcomes of a cluster follow each other.
func (c *Clusters) Add(cluster int, class string, value float64) {
	c.outcomes = append(c.outcomes, clusterOutcome{cluster, class, value})
}

// Effect is the design effect, at least 1. The residuals of a class are those of its mean, which k clusters have:
// their variance is k/(k-1) times larger. One cluster does not show how clusters differ, so its outcomes count with
// the design effect of what is unknown.
func (c *Clusters) Effect() float64 {
	classes := map[string]*classOutcomes{}
	for _, o := range c.outcomes {
		of := classes[o.class]
		if of == nil {
			of = &classOutcomes{}
			classes[o.class] = of
		}
		if of.n == 0 || of.newest != o.cluster {
			of.clusters, of.newest = of.clusters+1, o.cluster
		}
		of.n, of.sum = of.n+1, of.sum+o.value
	}
	const prior = priorOutcomes * 0.25 // sum of their variances
	within, between, sum := prior, unknownEffect*prior, 0.0
	for i, o := range c.outcomes {
		of := classes[o.class]
		residual := o.value - of.sum/of.n
		within += residual * residual
		if k := of.clusters; k > 1 {
			sum += residual * math.Sqrt(k/(k-1))
		} else {
			between += unknownEffect * residual * residual
		}
		if i+1 == len(c.outcomes) || c.outcomes[i+1].cluster != o.cluster {
			between, sum = between+sum*sum, 0
		}
	}
	return max(between/within, 1)
}

// classOutcomes are the outcomes of a class.
type classOutcomes struct {
	n, sum   float64
	clusters float64
	newest   int
}
