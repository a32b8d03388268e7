// Package summaries stores the statistics that the replicas of a pipeline share for training: a summary of each block
// of the input, stored once, in a key-value bucket. It treats a summary as bytes.
//
// A summary is stored in parts. Their keys contain its digest, so two replicas that store the same summary write the
// same keys, and different summaries never mix. The key of the block names the digest that counts. A replica claims a
// block before it makes the summary: this saves work and guarantees nothing.
package summaries
