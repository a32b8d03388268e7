// Package evidence decides from a sequence of outcomes, at any time and without looking twice for free: a [Test] says
// how much speaks for one of two models, an [Adaptive] window says when the mean of a sequence has changed. Both are
// step functions of their input: no clock, no randomness.
package evidence
