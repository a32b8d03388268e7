// Package preprocess makes the rows that a linear method is fitted on: scaled features, normal scores of the features,
// or the Nyström features of landmark rows.
package preprocess
