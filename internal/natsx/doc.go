// Package natsx is what embedd adds to nats.go: pull requests that distinguish messages of a stream from status
// messages of the server, readers that notice lost messages, hedged requests and backoff, denied permissions, streams
// and buckets that are created if they are missing, compare-and-set on keys that are read at the leader, and
// announcements of their changes.
package natsx
