// Package rewrite writes rows and columns of checked batches as new Arrow IPC streams, with added columns and metadata.
// What is kept leaves as the bytes that arrived wherever rows stay together.
package rewrite
