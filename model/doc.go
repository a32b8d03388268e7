// Package model is a fitted projection: everything that a service needs to answer. A [Model] projects rows of m
// features to Dim outputs ([Model.Project]), is aligned to the coordinates of another ([Align]), and is stored as a
// file ([Write], [Read]).
//
// Package model/fit learns models, model/score and model/eval evaluate them. This package links no solver and no
// optimizer, so a host that only transforms stays small. It imports nothing but the standard library and gonum, and
// knows no file format but its own and no transport.
package model
