// Package frame is what the methods have in common: the [Task], one fit as its method sees it; the [Method], an entry
// of the table of methods; preparing rows, ridges and cross-validation; and making a model of a method's solution.
package frame
