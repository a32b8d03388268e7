// Package connection connects verbs to a NATS server: by URLs or a context, with every kind of login, and TLS. A
// connection reconnects indefinitely and reads its login again each time. Its errors have the cause and the fix, and
// never a secret: users and tokens are removed from the URLs before the client sees them.
package connection
