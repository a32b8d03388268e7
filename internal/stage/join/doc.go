// Package join joins rows by key with labels that arrive later, or earlier. It is a step machine over two streams:
// [Join.Row] and [Join.Label] take events in the order in which they arrive and return their outcomes. It knows neither
// clock nor transport.
//
// Which label a row ends with is a function of the two streams, never of how they interleave:
//
//   - A label reaches a row of its key if their server times are at most Limits.Wait apart, whichever came first.
//   - Of the labels that reach a row, the one with the highest position in its stream wins. A label in the row itself
//     precedes them all. So a row that was given may be corrected later.
//   - A row with the key of an earlier row that is at most Wait older replaces it: the earlier one is never given, or
//     withdrawn.
//
// This holds as long as Limits.Bytes suffices for what arrives in between. Beyond it the oldest entries are removed
// first: a waiting row expires, a label without a row was too late, and rows that were given can no longer be
// corrected.
package join
