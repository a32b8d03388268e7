// Package method has [Table], which lists all methods. They are in one package for each family, one file each, next to
// the tests of their formulas. A method is a frame.Method whose fit builds a numerator and a denominator from the task,
// solves the pencil and returns the solution.
package method
