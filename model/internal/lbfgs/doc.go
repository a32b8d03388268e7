// Package lbfgs minimises a smooth function by L-BFGS.
package lbfgs
