// Package wire defines the names in messages: headers and schema metadata of outputs and dead letters, error codes, and
// the identity of an output. docs/wire.md documents them, and a test compares the two. It imports only the standard
// library, so clients can use it alone.
package wire
