// Package window holds the labelled rows that a projection is learned from, bounded in rows, age and bytes.
//
// Which rows are in a [Window], in which order, in which block, and which of them are held out is a function of the
// rows (their positions, times and labels) and of the configuration alone. It does not depend on the order in which
// rows come, on when a process started, or on what was evicted: a restart, or labels that come late, end in the same
// window and, through its moments, in the same models.
//
// Rows are kept newest first by class: of a class that has more than its quota the oldest go. Moments are kept by
// block, so a fit from a suffix of the window merges blocks and sums only those in which rows came or went.
//
// Not all that is in the window is learned from. Rows of classes that have too few of them wait, and rows with a feature
// that is too far from where the others have it are set aside; [Window.Sift] looks which, again from the rows alone.
// A label that was seen a few times may be junk: where there are too many labels, those make way, and together they take
// at most a tenth of a full window. What makes way then depends on the order in which rows came.
//
// A Window is for one goroutine. It knows no message format.
package window
