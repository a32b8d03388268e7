// Package tile multiplies matrices: sums of outer products of rows in float64, and float32 products of rows with rows,
// few of which are needed exactly.
//
// Operands are packed into panels of 24 numbers (48 in float32) per row; a kernel then computes a block of the result
// in registers. The cost is that of the arithmetic; OpenBLAS is as fast.
//
// An element of a float64 result is summed over blocks of rows that start every Depth rows of the operands: within a
// block by one fused multiply-add per row, in order, from zero; then the block's sum is added. So its bits depend only
// on its own column of each operand, not on other elements, the number of cores or the instructions of the machine.
// (The one exception are amd64 processors without FMA.)
//
// A PackedSquare is a 72 x 72 block of a matrix that is stored by such blocks, as three packed panels of 24 rows each,
// in the form that the kernels read: blocks are multiplied without packing them again.
//
// RankTwo is a step of the reduction of a symmetric matrix to tridiagonal form, in registers too.
//
// Tables are operands that are packed once, for a few vectors at a time or for one. Distances and Exp turn such
// products into kernels, and Standardise makes the vectors of raw rows. All have the same bits on every processor with
// FMA. Along and Across multiply eight vectors with an unpacked matrix, Gather computes a row of the product with a
// sparse one. Relax is a step of shortest paths from several rows of a graph.
//
// kernel_amd64.s and kernel_arm64.s are generated, in gen: go run . -out ../kernel_amd64.s -stubs ../kernel_amd64.go
// -pkg tile, and go run ./neon -out ../kernel_arm64.s.
package tile
