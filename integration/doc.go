// Package integration holds tests that start real NATS servers, the real daemon and real clients, and kill them. It
// has no code of its own. The tests in python/ are the clients of another language.
package integration
