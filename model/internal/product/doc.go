// Package product computes y = W (x - mean) + offset of rows in float32, the mean taken off inside the product and
// the rows read where they lie: side by side, as lists have them, or in columns.
//
// An output is the sum of eight lanes. Lane l adds the products of features l, l+8, l+16 and on, one after the other;
// then the lanes are added in pairs, (((0+1)+(2+3))+((4+5)+(6+7))), and the offset last. Every loop here sums in this
// order, so the bits of a row do not depend on its batch, its place or its layout. With AVX-512, with AVX2 and with
// NEON they are the same, each product and sum one fused operation. The portable loops round the product too: for
// processors without any of these, and under the build tag purego. Either is off the exact sum by at most (m/8 + 7)
// 2^-24 of the sum of the sizes of its terms.
//
// The difference x - mean is rounded to float32 once, whether x comes as float32 or as float64. So float32 values give
// the same bits in both.
//
// asm and asm/neon write the loops; these need no more than the processor that sets looks for.
package product

//go:generate sh -c "cd asm && go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg product"
//go:generate sh -c "cd asm && go run ./neon -out ../loops_arm64.s -stubs ../loops_arm64.go"
