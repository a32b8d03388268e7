// Package wire holds the names of embedd's wire contract: the headers and schema metadata of outputs and dead
// letters, the codes of errors, and the identity of an answer. docs/wire.md is the same contract in prose, and a test
// holds the two together. It imports the standard library alone, so that a client can use it without the rest.
package wire
