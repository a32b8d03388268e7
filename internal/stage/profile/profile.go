package profile

import (
	"math"
	"slices"

	"github.com/embedd/embedd/internal/stage/window"
)

const (
	// MaxRows bounds the rows that are described, the newest ones, and so the time and memory of a description.
	MaxRows = 20_000
	// minRows is the minimum number of rows to describe.
	minRows = 100
	// pauseRows is how many rows are read before learning may pause.
	pauseRows = 512
)

// Profile describes the newest rows of a window. The zero value describes none.
type Profile struct {
	Rows    int            // that are described
	Classes map[string]int // rows by class
	Runs    int            // of consecutive rows with the same label; 0: the rows are a sample
	Copies  int            // rows with the features and the label of an earlier one

	Present  []string // classes of the whole window, sorted
	Tails    float64  // share of its rows with a feature in the far tail of its distribution, as of the last Sift
	Features int
	Constant int // features that hardly vary
}

// Of describes the newest rows of a window. It calls pause now and then.
func Of(w *window.Window, pause func()) Profile {
	p := Profile{Classes: map[string]int{}, Features: w.Features(), Tails: window.Tails(w)}
	w.EachClass(func(label string, _ []*window.Row) { p.Present = append(p.Present, label) })
	slices.Sort(p.Present)
	if _, ok := w.Oldest(); !ok {
		return p
	}
	first, last := w.Back(MaxRows), ""
	different := make(map[uint64]struct{}, min(w.Len(), MaxRows)) // hashes of rows
	var sample [][]float64
	every := max(min(w.Len(), MaxRows)/sampledRows, 1)
	w.All(func(r *window.Row) bool {
		if r.Compare(first) < 0 {
			return true
		}
		if p.Rows%pauseRows == 0 {
			pause()
		}
		if p.Rows%every == 0 {
			sample = append(sample, r.X)
		}
		if p.Rows == 0 || r.Label != last {
			p.Runs++
		}
		last = r.Label
		p.Rows++
		p.Classes[r.Label]++
		different[window.Hash(w, r)] = struct{}{}
		return true
	})
	p.Copies = p.Rows - len(different)
	if window.HasSums(w) {
		p.Runs = 0
	}
	values := make([]float64, 0, len(sample))
	for j := range p.Features {
		if j%64 == 0 {
			pause()
		}
		values = values[:0]
		for _, x := range sample {
			if !math.IsNaN(x[j]) {
				values = append(values, x[j])
			}
		}
		if isConstant(values) {
			p.Constant++
		}
	}
	return p
}

const (
	// sampledRows is the approximate number of rows by which features are judged.
	sampledRows = 256
	// constantShare is the share of a feature's values that are equal, or as good as, if the feature is constant.
	constantShare = 0.99
	// constantRange is the largest difference from the usual value, relative to it, of values that are as good as equal.
	constantRange = 1e-5
)

// isConstant reports whether nearly all values of a feature are equal to the median of three of them.
func isConstant(v []float64) bool {
	n := len(v)
	if n < minRows {
		return false
	}
	three := []float64{v[0], v[n/2], v[n-1]}
	slices.Sort(three)
	others := (1 - constantShare) * float64(n)
	for _, f := range v {
		if math.Abs(f-three[1]) > constantRange*math.Abs(three[1]) {
			if others--; others < 0 {
				return false
			}
		}
	}
	return true
}

// HasRuns reports whether labels come in runs, more than a random order of the same rows has: the share of rows with
// the label of the row before is at least a tenth of the way from what chance explains to all, and far from chance.
func (p *Profile) HasRuns() bool {
	if p.Rows < minRows || len(p.Classes) < 2 || p.Runs == 0 {
		return false
	}
	n, chance := float64(p.Rows), 0.0
	for _, rows := range p.Classes {
		chance += float64(rows) / n * float64(rows) / n
	}
	repeats := float64(p.Rows-p.Runs) / n
	const errors, more = 6, 0.1 // standard errors, and a share of the rows that chance does not explain
	return repeats > chance+max(more*(1-chance), errors*math.Sqrt(chance*(1-chance)/n))
}

// RunRows is the mean number of consecutive rows with the same label; 0: unknown.
func (p *Profile) RunRows() float64 {
	if p.Runs == 0 {
		return 0
	}
	return float64(p.Rows) / float64(p.Runs)
}
