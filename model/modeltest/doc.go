// Package modeltest is what every method has to hold, as a test: [Run] fits a method, or a fit.Criterion of the
// caller's own, to small rows and checks what hosts rely on. The methods of package fit pass it.
package modeltest
