// Package health knows how a pipeline is doing: the conditions that keep it from answering, the state derived from
// them, and its metrics. The other parts of a pipeline report to it; it calls none of them.
package health
