// Package arrowio turns messages into rows and rows into messages. A message is one self-contained Arrow IPC stream:
// a schema, the dictionaries it needs, and record batches.
//
// Nothing from the wire is trusted (Invariant 6). Frames and flatbuffers are walked with every length checked against
// the bytes that arrived before it is used; then the columns are validated; then features are handed out as views on
// the message, without a copy. Arrow's own reader is not called on them: a message of under 2 KB can kill a process
// that gives it unchecked bytes (out of memory or stack overflow, which recover cannot stop).
//
// Columns that only pass through are never interpreted. They leave as they came, from their own field tables and
// buffer ranges, whatever their type.
//
// A record that the host holds goes in without the wire form ([Decoder.FromRecord]) and comes out ([Encoder.Record])
// under the same contract.
//
// Every error is an [*Error] with a [Code], which errors.Is finds: errors.Is(err, wire.NotArrow), errors.Is(err,
// wire.SchemaChanged).
package arrowio
