// Package lease says which of the replicas of a pipeline works at what only one should: learning.
//
// A lease is a key of a bucket, taken by create, renewed by compare-and-set every third of its life, and given back on
// a clean stop; the server ends one that is not renewed. It protects nothing: a process that slept does not know that
// its lease is gone. What a holder writes has to be fenced by the lease's term, as package registry does.
package lease
