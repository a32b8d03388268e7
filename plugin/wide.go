package plugin

import (
	"fmt"
	"sort"

	"github.com/embedd/embedd/model/fit"
)

// What a fit takes at most beside the window, as measured: matrices of features x features, or, where rows are fewer
// than features, copies of its rows.
const (
	momentMatrices = 12 // of a method that is fitted from moments
	rowMatrices    = 40 // of auto, and of methods that need the rows
	wideCopies     = 20
	leastWide      = 16 // rows from which something can be learned
	landmarkCopies = 6  // of the landmarks: of the live model, of the origin and of new ones, as they are and packed
)

// room bounds what is learned of m features before anything of features x features is asked for. A fit may take as
// much memory as the window beside it. Where its matrices do not fit, models are fitted from fewer rows than features,
// which needs none; where not even some rows fit, nothing is learned. The sentence says so and names the cure.
func (t *trainer) room(m int) (rows int, sentence string) {
	c := int64(t.columns(m))
	bytes, matrix := t.config.Training.Window.Bytes, 8*c*c
	matrices := int64(rowMatrices)
	if t.byMoments() && !t.chooses() {
		matrices = momentMatrices
	}
	need := matrices*matrix + 2*t.landmarkBytes(m) // rows have room beside landmarks
	if need <= bytes {
		return 0, ""
	}
	if t.behind() {
		return 0, fmt.Sprintf("nothing is learned: %d landmarks of %d features take more than training.window.bytes, %d; raise it to %d MiB, or ask for fewer landmarks",
			c, m, bytes, need>>20+1)
	}
	rows = min(int(bytes/(8*wideCopies*int64(m))), m-1)
	cure := fmt.Sprintf("raise training.window.bytes to %d MiB, or send fewer features", need>>20+1)
	if rows < leastWide {
		return rows, fmt.Sprintf("nothing is learned: with %d features training.window.bytes, %d, allows fits of %d rows; %s",
			m, bytes, rows, cure)
	}
	return rows, fmt.Sprintf(
		"%d features: the matrices of a fit would take more than training.window.bytes, %d, so models are fitted from %d rows at most; %s",
		m, bytes, rows, cure)
}

// mostOf is how many of so many rows of m features the window has room for, so that what a fit holds beside them takes as
// much memory as the window at most. It follows from the configuration alone, whatever auto has settled on: a restart
// has the same window.
func (t *trainer) mostOf(rows, m int) int {
	method, _ := t.config.Fit.Describe() // the configuration was checked
	if t.sums() && (method.Streaming == "moments" || method.Name == fit.Auto && !t.labelled()) {
		return rows
	}
	return max(leastWide, sort.Search(rows, func(n int) bool {
		return t.config.Fit.Held(n+1, n+1, m) > t.config.Training.Window.Bytes
	}))
}

// landmarkBytes is what the landmarks of the models take that are kept at one time.
func (t *trainer) landmarkBytes(m int) int64 {
	return landmarkCopies * 8 * int64(t.config.Fit.Landmarks) * int64(m)
}

// learnsNothing tells whether the window's memory has no room for learning.
func (t *trainer) learnsNothing() bool { return t.narrow != "" && t.most < leastWide }
