// Package onnx writes models as ONNX, for runtimes in other languages.
//
// The graph has one input, features (rows x m, float64), and one output, embedding (rows x d, float32), and uses
// operators of the standard domain only. It computes in float64. A value that is not finite becomes the mean of the
// fit. The metadata has the digest, the names of features and classes, and the method.
package onnx
