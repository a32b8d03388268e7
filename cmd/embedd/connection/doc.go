// Package connection is the way of every verb to its server: addresses, a context, every kind of login, TLS.
//
// A connection reconnects for ever, and reads its login again each time. What stands in its way is told in sentences
// that name cause and cure, and none of them holds a secret: users and tokens are taken out of the addresses before the
// client sees them.
package connection
