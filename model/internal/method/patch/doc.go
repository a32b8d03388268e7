// Package patch has the discriminants of partitioned manifolds, mpda and pmpda.
package patch
