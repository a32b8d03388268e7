// Package score judges outputs by rows that were held out: nearest-neighbour classifiers over plain rows or over a
// model's outputs, and the stratified splits that hold rows out. Whatever judges does it here: the cross-validation of
// a fit, an evaluation and the gate of a stage. A linear classifier judges what neighbours do not see.
package score
