// Package rewrite writes rows and columns of checked batches as new Arrow IPC streams, with additional columns and
// metadata. Bytes of kept columns are copied unchanged where rows stay together.
package rewrite
