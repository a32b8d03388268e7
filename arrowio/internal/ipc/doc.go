// Package ipc reads Arrow IPC streams from untrusted sources: frames, schemas, dictionaries and record batches. A
// [Chunk] that passed [Chunk.Check] may be read without further checks (Invariant 6). The package does not know about
// features and labels.
package ipc
