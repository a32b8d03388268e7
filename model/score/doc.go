// Package score evaluates outputs by held-out rows: nearest-neighbour classifiers over plain rows or over a model's
// outputs, a linear classifier, and the stratified splits that hold rows out. The cross-validation of a fit, an
// evaluation and the gate of a stage all use it.
package score
