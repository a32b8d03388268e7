// Package product computes y = W (x - mean) + offset of rows in float32. The mean is subtracted inside the product and
// the rows are read in place: row by row, as lists have them, or in columns.
//
// An output is the sum of eight lanes. Lane l adds the products of features l, l+8, l+16 and so on, one after the
// other; then the lanes are added in pairs, (((0+1)+(2+3))+((4+5)+(6+7))), and the offset last. Every loop here sums
// in this order, so the bits of a row do not depend on its batch, its position or its layout. They are the same with
// AVX-512, AVX2 and NEON, where each product and sum is one fused operation. The portable loops round the product too:
// they are for processors without any of these, and for the build tag purego. Either differs from the exact sum by at
// most (m/8 + 7) 2^-24 of the sum of the magnitudes of its terms.
//
// The difference x - mean is rounded to float32 once, whether x is float32 or float64. So float32 values give the same
// bits in both.
//
// The programs in asm and asm/neon generate the loops, which need no more than what sets checks for.
package product

//go:generate sh -c "cd asm && go run . -out ../loops_amd64.s -stubs ../loops_amd64.go -pkg product"
//go:generate sh -c "cd asm && go run ./neon -out ../loops_arm64.s -stubs ../loops_arm64.go"
