// Package svm finds the normal of a linear support vector machine.
package svm
