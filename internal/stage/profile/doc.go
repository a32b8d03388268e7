// Package profile describes the labelled rows of a window, and what is unusual about them: runs of labels, copies,
// imbalance, heavy tails, constant features. Nothing that is learned depends on it.
package profile
