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
// A Window is for one goroutine. It knows no message format.
package window
