// Package definition computes scatters, graphs and their forms from their definitions, by loops over rows and pairs,
// for tests of the methods. It imports no package of embedd, so that no fault can be in both.
package definition
