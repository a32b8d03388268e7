// Package integration holds tests that start real NATS servers, the real daemon and real clients, and kill them. It
// has only tests. The tests in python/ are the clients of another language.
package integration
