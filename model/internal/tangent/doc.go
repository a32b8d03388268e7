// Package tangent has the quadratic form over values at rows and tangent vectors at patches that MPDA, TSIMR and
// related methods share.
package tangent
