// Package join brings rows and the labels that come later, or earlier, together by key. It is a step machine over two
// streams: [Join.Row] and [Join.Label] take events in whatever order they arrive and return what follows from each. It
// knows neither clock nor transport, and links nothing.
//
// Which label a row ends with is a function of the two streams, never of how they interleave:
//
//   - A label reaches a row of its key when their server times are at most Limits.Wait apart, whichever came first.
//   - Of the labels that reach a row, the one with the highest place in its stream wins. A label in the row itself
//     comes before them all. So a row that was given out may be corrected later.
//   - A row with the key of an earlier row that is at most Wait older replaces it: the earlier one is never given out,
//     or withdrawn.
//
// It holds as long as Limits.Bytes suffices for what arrives in between. Beyond it the oldest goes first: a row that
// waits expires, a label without a row was too late, and what was given out can no longer be corrected.
package join
