// Package modeltest checks what hosts rely on: [Run] fits a method, or a fit.Criterion of the caller, to small data
// sets and tests the properties of its models. All methods of package fit pass it.
package modeltest
