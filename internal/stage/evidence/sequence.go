package evidence

import (
	"maps"
	"math"
	"slices"
)

// LabelSequence follows the labels of a stream: the shares of the classes, and runs of rows of one class.
type LabelSequence struct {
	Rows map[string]float64 `json:"rows,omitempty"` // by class; older rows count less
	All  float64            `json:"all"`
	// Count is the number of rows; RunStart is what it was before the first row of the newest run, which is of class Run.
	// Others is how many rows of other classes have come since the last row of Run. Same is how many rows of class Last
	// have come in a row.
	Count    int    `json:"count"`
	RunStart int    `json:"run_start"`
	Run      string `json:"run"`
	Others   int    `json:"others"`
	Same     int    `json:"same"`
	// Repeats is how many rows have the class of the row before; ByChance is the share that would if the order of the
	// rows were random.
	Repeats  float64 `json:"repeats"`
	ByChance float64 `json:"by_chance"`
	Last     string  `json:"last"` // class of the newest row

	// Level is the share of each class that is not rare, of the rows with weights; 0: not computed.
	Level float64 `json:"level"`
}

const (
	// MaxWeight is how many times its share of the rows a rare class weighs at most.
	MaxWeight = 10
	// shareRows is the number of rows at which all counts are halved.
	shareRows = 20_000
	// maxOthers is the maximum number of consecutive rows of other classes within a run, if labels come in runs: their
	// labels may be wrong. As many consecutive rows of one other class end the run.
	maxOthers = 3
)

// Add counts a row of a class.
func (s *LabelSequence) Add(class string) Row {
	if s.Rows == nil {
		s.Rows = map[string]float64{}
	}
	if s.All >= shareRows {
		s.All, s.Repeats = 0, s.Repeats/2
		for c, n := range s.Rows {
			if n = math.Floor(n / 2); n == 0 {
				delete(s.Rows, c)
			} else {
				s.Rows[c] = n
				s.All += n
			}
		}
	}
	if class == s.Last && s.All > 0 {
		s.Repeats++
	}
	if s.Same++; class != s.Last {
		s.Same = 1
	}
	if s.Others++; class == s.Run {
		s.Others = 0
	}
	most := 0
	if s.HasRuns() {
		most = maxOthers
	}
	isGroup := class != s.Run && s.Same >= most // wrong labels in a row are seldom all of one class
	r := Row{NewRun: s.All == 0 || s.Others > most || isGroup}
	if r.NewRun {
		rows := s.Others
		if isGroup {
			rows = s.Same
		}
		s.RunStart, s.Run, s.Others = s.Count-max(rows-1, 0), class, 0
	}
	r.IsStray = class != s.Run && s.Same == 1
	r.RunStart = s.Count
	if s.HasRuns() {
		r.RunStart = s.RunStart
	}
	s.Count++
	s.Rows[class]++
	s.All++
	s.Last = class
	if s.Level == 0 || int(s.All)%32 == 0 {
		s.setLevel()
	}
	r.Weight = min(MaxWeight, s.Level*s.All/s.Rows[class])
	return r
}

// minExcessRepeats is by how much the share of repeats must exceed that of a random order for labels to come in runs.
const minExcessRepeats = 0.1

// HasRuns reports whether labels come in runs, more than a random order of the rows has.
func (s *LabelSequence) HasRuns() bool {
	return s.All > 0 && s.Repeats/s.All > s.ByChance+minExcessRepeats*(1-s.ByChance)
}

// Share is the share of a class.
func (s *LabelSequence) Share(class string) float64 {
	if s.All == 0 {
		return 0
	}
	return s.Rows[class] / s.All
}

// setLevel sets the share that each class has in a weighted mean: the same for all, except that of a class that would
// weigh more than MaxWeight times its share of the rows.
func (s *LabelSequence) setLevel() {
	counts := slices.Sorted(maps.Values(s.Rows))
	s.ByChance = 0
	for _, n := range counts {
		s.ByChance += n / s.All * n / s.All
	}
	left := 1.0
	for i, n := range counts {
		s.Level = left / float64(len(counts)-i)
		most := MaxWeight * n / s.All
		if most >= s.Level {
			return
		}
		left -= most
	}
}
