// Package stiefel maximises a criterion over matrices with orthonormal columns, the Stiefel manifold.
package stiefel
