// Package model is the fitted map: all that a service needs to answer. A [Model] projects rows of m features to Dim
// outputs ([Model.Project]), is turned to the coordinates of another ([Align]), and travels as a file ([Write],
// [Read]).
//
// Package model/fit learns models, model/score and model/eval judge them. This package links no solver and no
// optimizer, so a host that only transforms stays small; it knows no file format but its own and no transport, and
// imports nothing but the standard library and gonum.
package model
