// Package evidence has a sequential test between two models and a drift detector. Both can be checked after every value
// without inflating their error probabilities, and are step functions of their input: no clock, no randomness.
package evidence
