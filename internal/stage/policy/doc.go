// Package policy decides when models are fitted, from how many of the newest rows, and which model goes live. All
// decisions are step functions of their events: no clock, goroutine or lock. Transcripts in testdata/decisions test
// them.
package policy
