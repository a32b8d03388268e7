// Package window holds the labelled rows that models are fitted on, bounded in rows, age and bytes.
//
// Which rows are in a [Window], in which order, in which block, and which of them are held out is a function of the
// rows (their positions, times and labels) and of the configuration alone. It does not depend on the order in which
// rows arrive, on when a process started, or on what was evicted. So a restart, or labels that arrive late, end in the
// same window and, through its moments, in the same models.
//
// Each class keeps its newest rows up to a quota. Moments are kept per block, so a fit on a suffix of the window merges
// blocks and sums only the blocks whose rows have changed.
//
// Outliers and rows of classes with few rows stay in the window and enter no fit; [Window.Sift] determines which, from
// the rows alone. If there are too many labels, rare ones are replaced, and together they take at most a tenth of a
// full window. Only which label is replaced depends on the order in which rows arrived.
//
// A Window is not safe for concurrent use. It knows no message format.
package window
