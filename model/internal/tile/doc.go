// Package tile multiplies matrices: sums of outer products of rows in float64, and products of rows with rows in
// float32 of which few matter.
//
// Operands are packed into panels of 24 numbers (48 in float32) side by side, row after row; a kernel then makes a
// block of the result in registers. What it costs is the arithmetic; OpenBLAS is as fast.
//
// An element of a result in float64 is summed over blocks of rows that begin every Depth rows of the operands: within
// one by a fused multiply-add a row, in order, from zero; then the block's sum is added. So its bits depend on its own
// column of either operand alone: not on the other elements, the number of cores or the instructions of the machine.
// (The one exception are amd64 processors without FMA.)
//
// A Lying square is 72 x 72 numbers of a matrix that is kept by such squares, stored as three packed panels of 24 rows
// each, as the kernels read them: squares are multiplied without being packed again.
//
// RankTwo is a step of the reduction of a symmetric matrix to tridiagonal form, in registers too.
//
// Tables are operands that are packed once, for a few vectors at a time; Exp is what kernels of distances make of such
// products. Along and Across multiply eight vectors with a matrix as it lies, Gather makes a row of the product with a
// sparse one.
//
// kernel_amd64.s and kernel_arm64.s are generated, in gen: go run . -out ../kernel_amd64.s -stubs ../kernel_amd64.go
// -pkg tile, and go run ./neon -out ../kernel_arm64.s; exp_amd64.s, gather_amd64.s, thin_amd64.s and ranktwo_amd64.s as
// gen/exp, gen/gather, gen/thin and gen/ranktwo say.
package tile
