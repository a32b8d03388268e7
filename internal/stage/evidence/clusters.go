package evidence

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

// Effect is the design effect, at least 1.
func (c *Clusters) Effect() float64 {
	type mean struct{ n, sum float64 }
	means := map[string]mean{}
	for _, o := range c.outcomes {
		m := means[o.class]
		means[o.class] = mean{m.n + 1, m.sum + o.value}
	}
	within, between, sum := 0.0, 0.0, 0.0
	for i, o := range c.outcomes {
		m := means[o.class]
		residual := o.value - m.sum/m.n
		within += residual * residual
		if sum += residual; i+1 == len(c.outcomes) || c.outcomes[i+1].cluster != o.cluster {
			between, sum = between+sum*sum, 0
		}
	}
	const prior = priorOutcomes * 0.25
	return max((between+unknownEffect*prior)/(within+prior), 1)
}
