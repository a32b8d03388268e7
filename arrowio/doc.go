// Package arrowio decodes messages into rows of features and encodes results as messages. A message is one
// self-contained Arrow IPC stream: a schema, the dictionaries it needs, and record batches. [NewDecoder] and
// [NewEncoder] are called first; the zero values of the other types without exported fields are not usable, except that
// of [Contract].
//
// Messages are untrusted (Invariant 6). Every length in frames and flatbuffers is checked against the received bytes
// before it is used, then the columns are validated, then features are returned as views without a copy. Arrow's own
// reader is not used, because a message of under 2 KB with unchecked bytes can crash a process (out of memory or stack
// overflow, which recover cannot stop).
//
// A [Decoder] is stateless: a [Contract] lists the feature elements that the messages of a pipeline have. Columns that
// only pass through are not interpreted; their bytes are copied to the output, whatever their type.
//
// A host that holds Arrow records uses [Decoder.FromRecord] and [Encoder.Record] instead of [Decoder.Decode] and
// [Encoder.Encode], with the same results.
//
// Errors, but those of [Records], are an [*Error] with a code that errors.Is finds: errors.Is(err, wire.SchemaChanged).
package arrowio
