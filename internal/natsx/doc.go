// Package natsx is what embedd adds to nats.go: pull requests that tell messages of a stream from status messages of
// the server, hedged requests, and backoff.
package natsx
