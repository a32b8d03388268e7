// Package pencil solves symmetric-definite eigenproblems N a = lambda D a.
//
// Every linear method of this module ends in one such pencil. The denominator D is factored once into a Metric: Z with
// Z' (D + rho I) Z = I, by a Cholesky factor if D (with its ridge) is definite, or by a rank cut if it is not. The
// problem is then an ordinary symmetric one, so eigenvalues are always real: no inverse and no nonsymmetric solver is
// used.
//
// Matrices are gonum's. Functions do not keep or change their arguments unless they say so, and are safe for concurrent
// use on distinct results. Those without an error result panic if shapes do not match, as gonum's do.
package pencil
