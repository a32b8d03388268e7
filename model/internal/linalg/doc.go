// Package linalg is the small linear algebra that gonum lacks or sums in another order: the order of a sum decides its
// last digits, and so the digest of a model.
package linalg
