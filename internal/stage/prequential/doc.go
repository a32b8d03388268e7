// Package prequential scores models on rows before any of them learns the row. Predictions come from the nearest of a
// set of held-out reference rows in the model's outputs.
package prequential
