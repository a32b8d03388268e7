// Package method has the methods, one file each, and [Table], which lists them all. A method is a frame.Method whose
// fit builds a numerator and a denominator from the task, solves the pencil and returns the solution. A file may use
// the criterion of the method that it is based on: tnca starts at pairacc and mfa, ksmpa is lsmpa in the space of a
// kernel.
package method
