// Package choose decides by cross-validation what a fit leaves open: the method, its preprocessing, its parameters, the
// dimension, and whether the best candidates are blended. It fits nothing on all rows: its result is a list of choices,
// and the caller fits the first one that works.
package choose
