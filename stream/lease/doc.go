// Package lease elects one replica of a pipeline for work that only one should do: training.
//
// A lease is a key of a bucket with a TTL. It is acquired by create, renewed by compare-and-set every third of its
// TTL, and deleted on a clean stop. It is no mutual exclusion: a process that slept does not know that its lease
// expired. Writes of a holder must be fenced by the term of the lease, as package registry does.
package lease
