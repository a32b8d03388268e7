// Package frame is what every method stands on: the [Task], which is one fit as its method sees it, with rows scaled,
// centred and cut to full rank, scatters, ridge, folds and neighbour lists; the [Method], which is an entry of the
// table of methods, with its parameters; and the way from a method's solution to a model.
package frame
