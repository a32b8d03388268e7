// Package eval compares methods: [Evaluate] fits each on the training part of several splits and counts the correct
// test rows.
package eval
