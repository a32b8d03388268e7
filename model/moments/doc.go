// Package moments has mergeable statistics of labelled rows: for every class its number of rows, sum and second
// moments, about one fixed shift. PCA, LDA, SRDA, SLE and pairacc need nothing else, so they refit exactly at a cost
// that does not depend on the number of rows. [New] makes a [Set], and fit.FitMoments learns a model from it.
package moments
