// Package trainer is the learning loop of a stage. For each message, in stream order, a [Trainer] scores the live model
// and the candidates on the rows, adds the rows to the window, fits the candidates that are due, and promotes a
// candidate that passes the gate. It knows no clock and starts no goroutine: its decisions are a function of the rows,
// their order and the configuration (Invariant 7).
package trainer
