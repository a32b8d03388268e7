// Package stiefel climbs a criterion over matrices with orthonormal columns, the Stiefel manifold.
package stiefel
