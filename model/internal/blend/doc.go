// Package blend makes one linear model of several: its outputs are the principal components of the outputs of its
// members.
package blend
