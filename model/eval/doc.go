// Package eval compares methods: [Evaluate] fits each on the training part of named splits and counts the test rows
// that it gets right.
package eval
