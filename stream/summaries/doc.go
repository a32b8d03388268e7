// Package summaries keeps what the replicas of a pipeline share of what they learn from: the summary of each block of the
// input, stored once under its key by create, in a key-value bucket of JetStream. It knows bytes alone.
//
// A summary is stored in parts, whose keys have its digest in them, so that two who store the same write the same, and two
// who do not never mix; what counts is the key of the block, which names the digest. Who makes a summary claims its block
// first: that spares work and protects nothing.
package summaries
