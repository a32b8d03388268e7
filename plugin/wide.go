package plugin

import "fmt"

// What a fit takes at most beside the window, as measured: matrices of features x features, or, where rows are fewer
// than features, copies of its rows.
const (
	momentMatrices = 12 // of a method that is fitted from moments
	rowMatrices    = 40 // of auto, and of methods that need the rows
	wideCopies     = 20
	leastWide      = 16 // rows from which something can be learned
)

// room bounds what is learned of m features before anything of features x features is asked for. A fit may take as
// much memory as the window beside it. Where its matrices do not fit, models are fitted from fewer rows than features,
// which needs none; where not even some rows fit, nothing is learned. The sentence says so and names the cure.
func (t *trainer) room(m int) (rows int, sentence string) {
	bytes, matrix := t.config.Training.Window.Bytes, 8*int64(m)*int64(m)
	matrices := int64(rowMatrices)
	if t.byMoments() && !t.chooses() {
		matrices = momentMatrices
	}
	if matrices*matrix <= bytes {
		return 0, ""
	}
	rows = min(int(bytes/(8*wideCopies*int64(m))), m-1)
	cure := fmt.Sprintf("raise training.window.bytes to %d MiB, or send fewer features", (matrices*matrix)>>20+1)
	if rows < leastWide {
		return rows, fmt.Sprintf("nothing is learned: with %d features training.window.bytes, %d, allows fits of %d rows; %s",
			m, bytes, rows, cure)
	}
	return rows, fmt.Sprintf(
		"%d features: the matrices of a fit would take more than training.window.bytes, %d, so models are fitted from %d rows at most; %s",
		m, bytes, rows, cure)
}

// learnsNothing tells whether the window's memory has no room for learning.
func (t *trainer) learnsNothing() bool { return t.narrow != "" && t.most < leastWide }
