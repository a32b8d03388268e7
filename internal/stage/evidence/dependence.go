package evidence

import "math"

// Dependence estimates the design effect of rows that depend on their neighbours: the factor by which the variance of a
// mean exceeds that of as many independent rows. It compares the sums of neighbouring blocks of 8 to 512 rows with what
// independent rows would give, and takes the largest ratio that chance does not explain.
//
// The variance of block sums is their mean squared successive difference (von Neumann, Ann. Math. Stat. 12, 1941),
// which one change of the mean hardly affects. Blocks: Conway, Management Science 10, 1963; design effect: Kish, Survey
// Sampling, 1965.
type Dependence struct {
	Scales [scales]blockScale `json:"scales"`
}

// blockScale has the sums of blocks of one length.
type blockScale struct {
	Filled  int      `json:"filled"` // rows of the newest block
	Newest  blockSum `json:"newest"`
	Before  blockSum `json:"before"`
	Blocks  int      `json:"blocks"`  // complete ones, since the last break
	Pairs   float64  `json:"pairs"`   // of neighbouring blocks
	Found   float64  `json:"found"`   // sum of the variances of pairs
	Expects float64  `json:"expects"` // the same for independent rows
	Weights float64  `json:"weights"` // sum of the squares of what is expected of pairs
}

// blockSum is the sum of the residuals of a block, and of their squares.
type blockSum struct {
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`
}

const (
	minBlock  = 8   // rows of the shortest blocks
	scales    = 7   // lengths of blocks, each twice as long as the one before
	minPairs  = 16  // pairs of blocks that an estimate needs
	maxPairs  = 256 // at which the sums are halved, so that the estimate follows the stream
	minErrors = 3   // standard errors
	maxStep   = 6   // times the variance of a pair, so that a change of the mean does not count as dependence

	// shortScales is the number of lengths, from the shortest one on, that ShortEffect uses.
	shortScales = 4
	// unknownEffect is the design effect while too few blocks are known.
	unknownEffect = 4
)

// Add adds the residual of a row: its value minus what was expected of it.
func (d *Dependence) Add(residual float64) {
	for i := range d.Scales {
		s := &d.Scales[i]
		s.Newest.Sum += residual
		s.Newest.Squares += residual * residual
		if s.Filled++; s.Filled < minBlock<<i {
			continue
		}
		if s.Blocks > 0 {
			step := s.Newest.Sum - s.Before.Sum
			expects := (s.Newest.Squares + s.Before.Squares) / 2
			s.Found += min(step*step/2, maxStep*max(s.ratio(), 1)*expects)
			s.Expects += expects
			s.Weights += expects * expects
			s.Pairs++
			if s.Pairs > maxPairs {
				s.Pairs, s.Found, s.Expects, s.Weights = s.Pairs/2, s.Found/2, s.Expects/2, s.Weights/4
			}
		}
		s.Blocks++
		s.Before, s.Newest, s.Filled = s.Newest, blockSum{}, 0
	}
}

// ratio is the variance of blocks in multiples of that of independent rows.
func (s *blockScale) ratio() float64 {
	if s.Expects == 0 {
		return 0
	}
	return s.Found / s.Expects
}

// Break starts new blocks: what follows has other expectations.
func (d *Dependence) Break() {
	for i := range d.Scales {
		s := &d.Scales[i]
		s.Filled, s.Blocks, s.Newest, s.Before = 0, 0, blockSum{}, blockSum{}
	}
}

// IsKnown reports whether there are enough blocks for an estimate.
func (d *Dependence) IsKnown() bool { return d.Scales[0].Pairs >= minPairs }

// Effect is the design effect, at least 1.
func (d *Dependence) Effect() float64 { return d.effectOf(scales) }

// effectOf is the design effect by blocks of the shortest lengths, as many as given.
func (d *Dependence) effectOf(lengths int) float64 {
	if !d.IsKnown() {
		return unknownEffect
	}
	effect := 1.0
	for i := range lengths {
		s := &d.Scales[i]
		if s.Pairs < minPairs || s.Expects == 0 {
			continue
		}
		// The standard error of the ratio for independent rows is sqrt(3 / pairs), where pairs count by their variance.
		pairs := s.Expects * s.Expects / s.Weights
		if s.ratio() > 1+minErrors*math.Sqrt(3/pairs) {
			effect = max(effect, s.ratio())
		}
	}
	return effect
}

// SafeEffect is the design effect, and that of a stream of which too little is known until there are enough blocks of
// two lengths: a first estimate is too small now and then.
func (d *Dependence) SafeEffect() float64 { return d.safe(d.Effect()) }

// ShortEffect is SafeEffect by blocks of up to 64 rows. Longer ones count a change of the concept as dependence: it
// changes each class differently, and labels come in runs.
func (d *Dependence) ShortEffect() float64 { return d.safe(d.effectOf(shortScales)) }

// safe is at least the design effect of what is unknown until there are enough blocks of two lengths.
func (d *Dependence) safe(effect float64) float64 {
	if d.Scales[1].Pairs < minPairs {
		return max(effect, unknownEffect)
	}
	return effect
}
